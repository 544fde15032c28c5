package tunnel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

const (
	// outEnough is the number of bytes sent in one call, if the device has that
	// many. Reading more would delay the first packets, and push them out of the
	// cache.
	outEnough = 120 << 10
	// outRead is the most that one read of the device returns, in bytes;
	// outMemory holds outEnough bytes and one read more.
	outRead   = udppath.VnetSize + maxPacket
	outMemory = outEnough + outRead
	// outPackets limits the datagrams of one call, and so the size of all
	// tables.
	outPackets = 1024
)

// outPacket is a packet for a peer, in one piece or two.
type outPacket struct {
	to    netip.Addr
	size  int
	iov   int // the first piece
	parts int
}

// outbox reads packets from the device that the kernel left whole, and cuts them
// into small headers, which it writes, and payloads, which stay where the read
// put them. Its batchSender sends the result.
type outbox struct {
	*ends
	memory   []byte
	used     int
	splitter udppath.Splitter
	to       netip.Addr // of the packet being cut
	more     bool       // the splitter has packets left
	arena    []byte
	headers  []byte // the free part of the arena

	packets []outPacket
	iovs    []unix.Iovec
	sender  *batchSender
}

func newOutbox(e *ends) *outbox {
	return &outbox{
		ends:    e,
		memory:  make([]byte, outMemory),
		arena:   make([]byte, outPackets*udppath.MaxSegmentHeader),
		packets: make([]outPacket, 0, outPackets),
		iovs:    make([]unix.Iovec, 0, 2*outPackets),
		sender:  newBatchSender(e),
	}
}

func (o *outbox) send(t *udppath.Table) outcome {
	if !o.sender.flush() {
		return blocked
	}
	for {
		result := o.fill(t)
		o.sender.begin(o.packets, o.iovs)
		if !o.sender.flush() {
			return blocked
		}
		if !o.more { // otherwise the device may be empty, and no event would follow
			return result
		}
	}
}

// fill collects packets until there are enough, or no more.
func (o *outbox) fill(t *udppath.Table) outcome {
	o.packets, o.iovs = o.packets[:0], o.iovs[:0]
	o.headers = o.arena
	if !o.more {
		o.used = 0
	}
	for {
		if !o.split() || o.used >= outEnough {
			return busy
		}
		if result := o.fetch(t); result != busy {
			return result
		}
	}
}

// fetch reads one packet, which may have to be cut, and carries out the path's
// decision about it. It leaves packets for peers to the splitter.
func (o *outbox) fetch(t *udppath.Table) outcome {
	b := o.memory[o.used : o.used+outRead]
	n, errno := read(o.device, b)
	switch {
	case errno == unix.EBADFD:
		return ended
	case errno != 0 || n < udppath.VnetSize:
		return dry
	}
	vnet := udppath.ParseVnet((*[udppath.VnetSize]byte)(b))
	switch v := o.path.Send(t, b[udppath.VnetSize:n], vnet); v.Action {
	case udppath.Deliver:
		return o.deliver(v.Packet)
	case udppath.Transmit:
		if reason := o.splitter.Start(v.Packet, vnet); reason != udppath.Passed {
			o.uncut[reason]++
			return busy
		}
		o.to, o.more = v.To, true
		o.used += n
	}
	return busy
}

// split cuts the packet that fetch read, and reports whether there is room for
// more. Without room it continues at the next call.
func (o *outbox) split() bool {
	for o.more {
		if len(o.packets) == outPackets {
			return false
		}
		s, ok := o.splitter.Next(o.headers)
		if !ok {
			o.more = false
			break
		}
		p := outPacket{to: o.to, size: len(s.Header) + len(s.Payload), iov: len(o.iovs), parts: 1}
		o.iovs = append(o.iovs, iovec(s.Header))
		if len(s.Payload) > 0 {
			o.headers = o.headers[len(s.Header):]
			o.iovs = append(o.iovs, iovec(s.Payload))
			p.parts = 2
		}
		o.packets = append(o.packets, p)
	}
	return true
}
