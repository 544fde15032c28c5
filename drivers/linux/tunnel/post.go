package tunnel

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// narrowTime is for how long a peer gets single packets after the kernel refused
// a message of several: because the path to it takes less than such a packet
// (EMSGSIZE, in older kernels EINVAL), or because of the device that leads to it
// (EIO): in older kernels one that computes no checksums, in all a way that IPsec
// takes. The former may pass: the kernel itself forgets what it learnt of a path
// after ten minutes.
const narrowTime = 30 * time.Second

// post sends the packets of one batch, in as few messages as the kernel takes.
type post struct {
	*ends
	packets []outPacket
	iovs    []unix.Iovec

	msgs  []unix.Mmsghdr
	names []name
	ctrls []control
	lasts []int // for each message, how many packets end with it
	sent  int   // messages
	done  int   // packets

	// narrow peers get single packets for a while.
	narrow  map[netip.Addr]time.Time
	refusal unix.Errno // the last one
}

func newPost(e *ends) *post {
	return &post{
		ends:   e,
		msgs:   make([]unix.Mmsghdr, 0, outPackets),
		names:  make([]name, outPackets),
		ctrls:  make([]control, outPackets),
		lasts:  make([]int, 0, outPackets),
		narrow: map[netip.Addr]time.Time{},
	}
}

// begin takes a batch, which must stay as it is until flush says that it is sent.
func (p *post) begin(packets []outPacket, iovs []unix.Iovec) {
	p.packets, p.iovs = packets, iovs
	p.done = 0
	p.pack()
}

// pack makes messages of the packets that are not sent.
func (p *post) pack() {
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
func (p *post) add(first, last int, shape udppath.Message) {
	i := len(p.msgs)
	p.msgs = append(p.msgs, unix.Mmsghdr{})
	p.lasts = append(p.lasts, last)
	h := &p.msgs[i].Hdr
	p.names[i] = nameOf(shape.To, p.letter.port)
	setName(h, &p.names[i])
	end := p.packets[last-1]
	setIovs(h, p.iovs[p.packets[first].iov:end.iov+end.parts])
	if shape.Count > 1 {
		p.ctrls[i].setSegment(h, shape.Size)
	}
}

// flush sends, and reports whether everything is sent: if not, the socket is full.
func (p *post) flush() bool {
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

// refuse does what is to be done about a message that the kernel did not take:
// one of several packets is made into single ones, and one of a single packet
// is dropped.
func (p *post) refuse(errno unix.Errno) {
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

func (p *post) isNarrow(to netip.Addr) bool {
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

// demotion says how many peers get single packets.
func (p *post) demotion() demotion {
	var d demotion
	for to, until := range p.narrow {
		if p.now.After(until) { // nothing was sent to it since
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
