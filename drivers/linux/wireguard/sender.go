package wireguard

import (
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// sender sends the packets of one call.
type sender struct {
	msg   unix.Msghdr
	ctrl  control
	iovs  [maxSegments]unix.Iovec
	errno unix.Errno
	poll  func(fd uintptr) bool
}

// control holds the control message with the size of each packet in a message.
type control struct {
	unix.Cmsghdr
	size uint16
	_    [6]byte
}

// send sends packets to one peer, as few messages.
func (o *sender) send(s *socket, bufs [][]byte, e *endpoint, counts *counts) error {
	if o.poll == nil {
		o.poll = o.trySend
	}
	o.msg.Name = &e.name[0]
	o.msg.Namelen = e.size
	var errs error
	for len(bufs) > 0 {
		n := o.gather(bufs, s.single())
		if s.raw.Write(o.poll) != nil {
			return net.ErrClosed
		}
		if n > 1 && (o.errno == unix.EIO || o.errno == unix.EINVAL || o.errno == unix.EMSGSIZE) {
			s.refused.Store(time.Now().UnixNano())
			continue
		}
		fate := carried
		if o.errno != 0 {
			errs, fate = o.errno, socketRefused
		}
		counts.add(fate, dataIn(bufs[:n]))
		bufs = bufs[n:]
	}
	return errs
}

// gather makes a message of the first packets, and returns how many.
func (o *sender) gather(bufs [][]byte, single bool) int {
	var m udppath.Message
	n := 0
	for n < len(bufs) && m.Add(netip.Addr{}, len(bufs[n])) {
		o.iovs[n] = iovec(bufs[n])
		n++
		if single {
			break
		}
	}
	o.msg.Iov = &o.iovs[0]
	o.msg.SetIovlen(n)
	o.msg.Control = nil
	o.msg.SetControllen(0)
	if n > 1 {
		o.ctrl.Level, o.ctrl.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		o.ctrl.SetLen(unix.CmsgLen(2))
		o.ctrl.size = uint16(m.Size)
		o.msg.Control = (*byte)(unsafe.Pointer(&o.ctrl))
		o.msg.SetControllen(unix.CmsgSpace(2))
	}
	return n
}

// trySend sends without waiting, and reports whether there is a result.
func (o *sender) trySend(fd uintptr) bool {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&o.msg)), unix.MSG_DONTWAIT)
		o.errno = errno
		if o.errno != unix.EINTR {
			return o.errno != unix.EAGAIN
		}
	}
}
