package tunnel

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// narrowTime is how long a peer gets single packets after the kernel refused a
// message of several. The path to the peer may be too narrow for one of the
// packets (EMSGSIZE, in older kernels EINVAL), or the device may refuse it
// (EIO): in older kernels a device that computes no checksums, in all kernels a
// route through IPsec. A narrow path may pass: the kernel itself forgets a
// path's MTU after ten minutes.
const narrowTime = 30 * time.Second

// batchSender sends the packets of one batch, in as few messages as the kernel
// accepts.
type batchSender struct {
	*ends
	packets []outPacket
	iovs    []unix.Iovec

	msgs  []unix.Mmsghdr
	names []name
	ctrls []control
	lasts []int // for each message, the number of packets up to its end
	sent  int   // messages
	done  int   // packets

	// narrow peers get single packets for a while.
	narrow  map[netip.Addr]time.Time
	refusal unix.Errno // the last one
}

func newBatchSender(e *ends) *batchSender {
	return &batchSender{
		ends:   e,
		msgs:   make([]unix.Mmsghdr, 0, outPackets),
		names:  make([]name, outPackets),
		ctrls:  make([]control, outPackets),
		lasts:  make([]int, 0, outPackets),
		narrow: map[netip.Addr]time.Time{},
	}
}

// begin starts a batch, which must not change until flush reports that it is sent.
func (p *batchSender) begin(packets []outPacket, iovs []unix.Iovec) {
	p.packets, p.iovs = packets, iovs
	p.done = 0
	p.pack()
}

// pack makes messages of the packets that are not yet sent.
func (p *batchSender) pack() {
	p.msgs, p.lasts = p.msgs[:0], p.lasts[:0]
	p.sent = 0
	for first := p.done; first < len(p.packets); {
		shape := udppath.Message{}
		last := first
		single := p.isNarrow(p.packets[first].to)
		for last < len(p.packets) && shape.Add(p.packets[last].to, p.packets[last].size) {
			last++
			if single {
				break
			}
		}
		p.add(first, last, shape)
		first = last
	}
}

// add makes one message of the packets from first until last.
func (p *batchSender) add(first, last int, shape udppath.Message) {
	i := len(p.msgs)
	p.msgs = append(p.msgs, unix.Mmsghdr{})
	p.lasts = append(p.lasts, last)
	h := &p.msgs[i].Hdr
	p.names[i] = nameOf(shape.To, p.replies.port)
	setName(h, &p.names[i])
	end := p.packets[last-1]
	setIovs(h, p.iovs[p.packets[first].iov:end.iov+end.parts])
	if shape.Count > 1 {
		p.ctrls[i].setSegment(h, shape.Size)
	}
}

// flush sends the messages, and reports whether everything is sent: if not, the
// socket is full.
func (p *batchSender) flush() bool {
	for p.sent < len(p.msgs) {
		n, errno := sendmmsg(p.socket, p.msgs[p.sent:])
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			p.refuse(errno)
		default:
			p.sent += n
			p.done = p.lasts[p.sent-1]
		}
	}
	return true
}

// refuse handles a message that the kernel did not accept. It splits a message of
// several packets into single packets, and drops a single packet.
func (p *batchSender) refuse(errno unix.Errno) {
	first, last := p.done, p.lasts[p.sent]
	if last-first > 1 && (errno == unix.EMSGSIZE || errno == unix.EINVAL || errno == unix.EIO) {
		p.narrow[p.packets[first].to] = p.now.Add(narrowTime)
		p.refusal = errno
		p.pack()
		return
	}
	p.refused[socketRefused] += uint64(last - first)
	p.done = last
	p.sent++
}

func (p *batchSender) isNarrow(to netip.Addr) bool {
	if len(p.narrow) == 0 {
		return false
	}
	until, ok := p.narrow[to]
	if ok && p.now.After(until) {
		delete(p.narrow, to)
		return false
	}
	return ok
}

// fallback implements [tier]: it says how many peers get single packets, and why.
func (p *batchSender) fallback() fallback {
	var d fallback
	for to, until := range p.narrow {
		if p.now.After(until) { // no packet was sent to it since
			delete(p.narrow, to)
		} else if until.After(d.until) {
			d.until = until
		}
	}
	if n := len(p.narrow); n > 0 {
		d.what = fmt.Sprintf("single packets to %d of the peers, since the kernel refused messages of several: %s", n,
			p.refusal)
	}
	return d
}
