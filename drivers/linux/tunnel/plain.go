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

// plain carries one packet with each call, over a device without virtio-net headers.
type plain struct {
	*ends
	in, out []byte

	from name
	iov  [1]unix.Iovec
	msg  [1]unix.Mmsghdr

	outgoing packetSender
	waiting  bool // outgoing holds a packet that waits for room in the socket
}

func newPlain(e *ends) *plain {
	p := &plain{ends: e, in: make([]byte, maxPacket), out: make([]byte, maxPacket), outgoing: e.replies}
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
		if p.waiting && !p.sendOne() {
			return blocked
		}
	}
	return busy
}

// fetch reads a packet and carries out the path's decision about it. It leaves
// packets for peers to sendOne.
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

// sendOne sends the waiting packet, and returns false if the socket is full.
func (p *plain) sendOne() bool {
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

// fallback implements tier: no simpler way exists.
func (p *plain) fallback() fallback { return fallback{} }
