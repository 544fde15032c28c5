package tunnel

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// drop is a reason why the kernel did not take a packet. Package udppath has
// its own reasons for not offering one.
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

// outcome is the result of an attempt to carry packets.
type outcome uint8

const (
	dry     outcome = iota // there was at most one packet, and it is carried
	busy                   // there were several, and more may follow
	blocked                // the socket is full: nothing is lost, try again when it has room
	ended                  // the device is gone
)

// tier carries packets, one batch with each call.
type tier interface {
	receive(t *udppath.Table) outcome // from the socket to the device
	send(t *udppath.Table) outcome    // from the device to the socket
	fallback() fallback               // the fallback in force
}

// fallback says which faster way a tier avoids for a while, and why; "" if it avoids
// none. A fallback ends by itself.
type fallback struct {
	what  string
	until time.Time
}

// ends holds the parts that all tiers share: the device, the socket, and the
// counters of the packets between them.
type ends struct {
	device, socket int
	vnet           bool // the device has virtio-net headers
	now            time.Time

	path    udppath.Path
	uncut   udppath.Counters // packets that the path accepted and that could not be cut
	refused [drops]uint64

	replies packetSender
	whole   [udppath.VnetSize]byte

	iovs [2]unix.Iovec
}

// begin starts a batch.
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

// written counts the result of a write to the device.
func (e *ends) written(errno unix.Errno) outcome {
	if errno == unix.EBADFD {
		return ended
	}
	if errno != 0 {
		e.refused[deviceRefused]++
	}
	return busy
}

// take carries out the path's decision about a datagram. It returns a packet for
// the device and leaves the writing to its caller.
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

// reply sends an ICMP error to a peer. It does not wait for room in the socket.
func (e *ends) reply(to netip.Addr, packet []byte) {
	e.replies.address(to, packet)
	if e.replies.send(e.socket) != 0 {
		e.refused[socketRefused]++
	}
}
