package tunnel

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below return at once, so the scheduler need not know of them:
// telling it costs more time than some of them take. The buffers that own the memory
// keep it alive, and it does not move. If a signal interrupts a call, the call
// starts over. The runtime sends one when it wants this thread to pause; the
// signal's handler has run by then.

func sendmmsg(fd int, msgs []unix.Mmsghdr) (int, unix.Errno) {
	return batch(unix.SYS_SENDMMSG, fd, msgs)
}

func recvmmsg(fd int, msgs []unix.Mmsghdr) (int, unix.Errno) {
	return batch(unix.SYS_RECVMMSG, fd, msgs)
}

func batch(call uintptr, fd int, msgs []unix.Mmsghdr) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(msgs))), uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

func read(fd int, b []byte) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

func writev(fd int, iovs []unix.Iovec) unix.Errno {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iovs))),
			uintptr(len(iovs)))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// hotTime is how long a wait keeps its processor. The runtime's monitor takes
// the processor back after 10 ms at the latest. If the goroutine sleeps in a
// call that the scheduler knows of, the monitor wakes every 20 µs to decide
// whether to give the processor to other goroutines, and the goroutine must get
// one again: at 60,000 packets a second a packet then cost 7.6 µs instead of
// 5.8.
//
// hotTime is longer than the kernel's tick on purpose. A timer that is the next
// to expire must be programmed for each wait and again after it, which on
// virtual machines cost 4 µs a packet.
const hotTime = 20 * time.Millisecond

// waiter waits for the device, for the socket, and for the order to stop.
type waiter struct {
	fds [3]unix.PollFd
	hot bool // the wait may keep its processor: other goroutines have another one
}

func newWaiter(device, socket, stop int) *waiter {
	w := &waiter{hot: runtime.GOMAXPROCS(0) > 1}
	w.fds[0] = unix.PollFd{Fd: int32(device)}
	w.fds[1] = unix.PollFd{Fd: int32(socket)}
	w.fds[2] = unix.PollFd{Fd: int32(stop), Events: unix.POLLIN}
	w.want(false)
	return w
}

// want sets what to wait for: a packet from the device, unless one is waiting
// for the socket, and a datagram from the socket or room in it.
func (w *waiter) want(blocked bool) {
	w.fds[0].Events, w.fds[1].Events = unix.POLLIN, unix.POLLIN
	if blocked {
		w.fds[0].Events, w.fds[1].Events = 0, unix.POLLIN|unix.POLLOUT
	}
}

// short waits for a moment and reports whether something has happened. It also
// returns when the runtime interrupts it to take the processor.
func (w *waiter) short() bool {
	if !w.hot {
		return false
	}
	timeout := unix.NsecToTimespec(int64(hotTime))
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL,
		uintptr(unsafe.Pointer(&w.fds[0])), uintptr(len(w.fds)), uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	return errno == 0 && n > 0
}

// long waits without a limit, and gives other goroutines the processor.
func (w *waiter) long() error {
	for {
		if _, err := unix.Ppoll(w.fds[:], nil, nil); err != unix.EINTR {
			return err
		}
	}
}

// arrived reports whether the socket has a datagram or an error.
func (w *waiter) arrived() bool { return w.fds[1].Revents&^unix.POLLOUT != 0 }

// leaving reports whether the device has a packet, or the socket has room for
// the one that waits.
func (w *waiter) leaving() bool {
	return w.fds[0].Revents&unix.POLLIN != 0 || w.fds[1].Revents&unix.POLLOUT != 0
}

// gone reports whether the device is gone.
func (w *waiter) gone() bool { return w.fds[0].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 }

// stopped reports whether the loop was told to stop.
func (w *waiter) stopped() bool { return w.fds[2].Revents != 0 }
