package tunnel

import (
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

const (
	// maxPacket is the most that one read of the device or the socket returns.
	maxPacket = 65535
	// turn is how many packets one direction carries before the other's turn.
	turn = 32
)

// plain carries one packet a call, of a device without virtio-net headers.
type plain struct {
	*ends
	in, out []byte

	from name
	iov  [1]unix.Iovec
	msg  [1]unix.Mmsghdr

	outgoing letter
	waiting  bool // outgoing holds a packet that the socket has yet to take
}

func newPlain(e *ends) *plain {
	p := &plain{ends: e, in: make([]byte, maxPacket), out: make([]byte, maxPacket), outgoing: e.letter}
	p.iov[0] = iovec(p.in)
	setIovs(&p.msg[0].Hdr, p.iov[:])
	return p
}

func (p *plain) receive(t *udppath.Table) outcome {
	for i := range turn {
		setName(&p.msg[0].Hdr, &p.from)
		if _, errno := recvmmsg(p.socket, p.msg[:]); errno != 0 {
			if i > 1 {
				break
			}
			return dry
		}
		packet := p.take(t, &p.from, p.in[:p.msg[0].Len])
		if packet != nil && p.deliver(packet) == ended {
			return ended
		}
	}
	return busy
}

func (p *plain) send(t *udppath.Table) outcome {
	for range turn {
		if !p.waiting {
			if o := p.fetch(t); o != busy {
				return o
			}
		}
		if p.waiting && !p.post() {
			return blocked
		}
	}
	return busy
}

// fetch reads a packet and carries out the path's decision about it. It leaves
// packets for peers to post.
func (p *plain) fetch(t *udppath.Table) outcome {
	n, errno := read(p.device, p.out)
	switch {
	case errno == unix.EBADFD:
		return ended
	case errno != 0:
		return dry
	}
	switch v := p.path.Send(t, p.out[:n], udppath.Vnet{}); v.Action {
	case udppath.Deliver:
		return p.deliver(v.Packet)
	case udppath.Transmit:
		p.outgoing.address(v.To, v.Packet)
		p.waiting = true
	}
	return busy
}

// post sends the packet that waits, and reports whether none does any more.
func (p *plain) post() bool {
	errno := p.outgoing.send(p.socket)
	if errno == unix.EAGAIN {
		return false
	}
	if errno != 0 {
		p.refused[socketRefused]++
	}
	p.waiting = false
	return true
}

// demotion implements tier: there is nothing below.
func (p *plain) demotion() demotion { return demotion{} }
