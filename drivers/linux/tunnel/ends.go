package tunnel

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// drop is a reason for which the kernel did not take a packet, beside those for
// which package proxy does not offer it.
type drop uint8

const (
	deviceRefused drop = iota // the device, most often because it is down
	socketRefused             // the socket: no route, filtered, no buffer
	drops         int  = iota
)

func (d drop) String() string {
	if d == deviceRefused {
		return "device_refused"
	}
	return "socket_refused"
}

// outcome is the result of an attempt to carry.
type outcome uint8

const (
	dry     outcome = iota // there was nothing, or one packet, and it is carried
	busy                   // there were more, and so may be answers to them, or still are
	blocked                // the socket is full: nothing is lost, try again when it is not
	ended                  // the device is gone
)

// tier carries packets, a batch a call.
type tier interface {
	receive(t *udppath.Table) outcome // from the socket to the device
	send(t *udppath.Table) outcome    // from the device to the socket
	demotion() demotion               // what it does not do for the time being
}

// demotion names the work that a tier does not do for a while, and why; "" if it
// does all. It ends by itself.
type demotion struct {
	what  string
	until time.Time
}

// ends holds what all tiers share: the device, the socket, and the counters of
// the packets between them.
type ends struct {
	device, socket int
	vnet           bool // the device has virtio-net headers
	now            time.Time

	path    udppath.Path
	uncut   udppath.Counters // packets that the path let pass and that could not be cut
	refused [drops]uint64

	letter letter // for replies
	whole  [udppath.VnetSize]byte

	iovs [2]unix.Iovec
}

// begin is called before each batch.
func (e *ends) begin(now time.Time) {
	e.now = now
	e.path.Tick(now)
}

// deliver writes one finished packet to the device.
func (e *ends) deliver(packet []byte) outcome {
	e.iovs[0], e.iovs[1] = iovec(e.whole[:]), iovec(packet)
	if !e.vnet {
		return e.written(writev(e.device, e.iovs[1:]))
	}
	return e.written(writev(e.device, e.iovs[:]))
}

// written counts what a write to the device came to.
func (e *ends) written(errno unix.Errno) outcome {
	if errno == unix.EBADFD {
		return ended
	}
	if errno != 0 {
		e.refused[deviceRefused]++
	}
	return busy
}

// take carries out the path's decision about a datagram. It returns a packet
// for the device instead of writing it.
func (e *ends) take(t *udppath.Table, from *name, b []byte) []byte {
	v := e.path.Receive(t, netip.AddrFrom4(from.Addr), b)
	switch v.Action {
	case udppath.Deliver:
		return v.Packet
	case udppath.Transmit:
		e.reply(v.To, v.Packet)
	}
	return nil
}

// reply sends an ICMP error to a peer. It is worth no waiting.
func (e *ends) reply(to netip.Addr, packet []byte) {
	e.letter.address(to, packet)
	if e.letter.send(e.socket) != 0 {
		e.refused[socketRefused]++
	}
}
