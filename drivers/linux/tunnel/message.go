package tunnel

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// control is room for one control message that holds a number.
type control struct {
	unix.Cmsghdr
	value [8]byte
}

// setSegment tells the kernel to send a message as datagrams of a size.
func (c *control) setSegment(h *unix.Msghdr, size int) {
	c.Level, c.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	c.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&c.value)) = uint16(size)
	h.Control = (*byte)(unsafe.Pointer(c))
	h.SetControllen(unix.CmsgSpace(2))
}

// segment returns the size of the datagrams that were joined into a received
// message, 0 if there is one datagram.
func (c *control) segment(h *unix.Msghdr) int {
	if int(h.Controllen) < unix.CmsgLen(4) || c.Level != unix.SOL_UDP || c.Type != unix.UDP_GRO {
		return 0
	}
	return int(*(*int32)(unsafe.Pointer(&c.value)))
}

// name is the address of a datagram in the kernel's form.
type name = unix.RawSockaddrInet4

// nameOf writes the port in network byte order.
func nameOf(ip netip.Addr, port uint16) name {
	n := name{Family: unix.AF_INET, Addr: ip.As4()}
	p := (*[2]byte)(unsafe.Pointer(&n.Port))
	p[0], p[1] = byte(port>>8), byte(port)
	return n
}

func setName(h *unix.Msghdr, n *name) {
	h.Name, h.Namelen = (*byte)(unsafe.Pointer(n)), unix.SizeofSockaddrInet4
}

func setIovs(h *unix.Msghdr, iovs []unix.Iovec) {
	h.Iov = unsafe.SliceData(iovs)
	h.SetIovlen(len(iovs))
}

func iovec(b []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

// packetSender sends single packets.
type packetSender struct {
	port uint16
	to   name
	iov  [1]unix.Iovec
	msg  [1]unix.Mmsghdr
}

// address prepares a packet, which must not change until it is sent.
func (l *packetSender) address(to netip.Addr, packet []byte) {
	l.to = nameOf(to, l.port)
	l.iov[0] = iovec(packet)
	setName(&l.msg[0].Hdr, &l.to)
	setIovs(&l.msg[0].Hdr, l.iov[:])
}

func (l *packetSender) send(socket int) unix.Errno {
	_, errno := sendmmsg(socket, l.msg[:])
	return errno
}
