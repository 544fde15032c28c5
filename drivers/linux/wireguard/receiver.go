package wireguard

import (
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

// The guess of a receiver is between these: the size of a full packet on Ethernet
// at first, and never so small that a message of full packets does not fit.
const (
	firstGuess    = 1452
	smallestGuess = maxPacket/maxSegments + 1
)

// maxKnown limits the endpoints that a receiver remembers.
const maxKnown = 10_000

// receiver reads a socket, for one goroutine.
type receiver struct {
	socket  *socket
	guess   int // bytes of each packet of the next message
	limit   int // bytes of the largest packet; larger ones are dropped
	msg     unix.Msghdr
	ctrl    control
	name    [unix.SizeofSockaddrInet6]byte
	iovs    [maxSegments]unix.Iovec
	whole   []byte // a message that was guessed wrong
	wait    bool
	n       int
	errno   unix.Errno
	poll    func(fd uintptr) bool
	known   map[netip.AddrPort]*endpoint
	counts  *counts
	crosses *crossing
}

func newReceiver(s *socket, limit int, counts *counts, crosses *crossing) *receiver {
	r := &receiver{socket: s, limit: limit, guess: firstGuess, whole: make([]byte, maxPacket),
		known: map[netip.AddrPort]*endpoint{}, counts: counts, crosses: crosses}
	r.poll = r.tryReceive
	return r
}

// receive implements [conn.ReceiveFunc]. It waits for a message, and then takes as
// many as there are and as have room.
func (r *receiver) receive(bufs [][]byte, sizes []int, eps []conn.Endpoint) (n int, err error) {
	for n == 0 || len(bufs)-n >= maxSegments {
		size, err := r.receiveInto(bufs[n:], n == 0)
		if err != nil || size < 0 {
			return n, err
		}
		k := r.open(size, bufs[n:], sizes[n:])
		e := r.from()
		for i := range k {
			eps[n+i] = e
			if r.crosses.waits(bufs[n+i][:sizes[n+i]], e) {
				sizes[n+i] = 0 // the library drops it
			}
		}
		n += k
	}
	return n, nil
}

// receiveInto receives one message, each packet into its own buffer if they have
// the size guessed. It waits for one if told so, and returns -1 if there is none.
func (r *receiver) receiveInto(bufs [][]byte, wait bool) (int, error) {
	left := maxPacket
	k := 0
	for ; k < len(bufs) && k < len(r.iovs) && left > 0; k++ {
		size := r.guess
		if k == len(r.iovs)-1 || k == len(bufs)-1 {
			size = left
		}
		r.iovs[k] = iovec(bufs[k][:size])
		left -= size
	}
	r.msg.Name = &r.name[0]
	r.msg.Namelen = uint32(len(r.name))
	r.msg.Iov = &r.iovs[0]
	r.msg.SetIovlen(k)
	r.msg.Control = (*byte)(unsafe.Pointer(&r.ctrl))
	r.msg.SetControllen(int(unsafe.Sizeof(r.ctrl)))
	r.wait = wait
	if err := r.socket.raw.Read(r.poll); err != nil {
		return 0, net.ErrClosed
	}
	switch r.errno {
	case 0:
		return r.n, nil
	case unix.EAGAIN:
		return -1, nil
	}
	return 0, r.errno
}

// tryReceive receives without waiting, and reports whether there is a result.
func (r *receiver) tryReceive(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		r.n, r.errno = int(n), errno
		return errno != unix.EAGAIN || !r.wait
	}
}

// segment returns the size of each packet in the message.
func (r *receiver) segment() int {
	if int(r.msg.Controllen) >= unix.CmsgLen(2) && r.ctrl.Level == unix.SOL_UDP && r.ctrl.Type == unix.UDP_GRO {
		return int(r.ctrl.size)
	}
	return 0
}

// open puts each packet of a message into its own buffer, and returns how many
// there are.
func (r *receiver) open(size int, bufs [][]byte, sizes []int) int {
	segment := r.segment()
	if segment == 0 {
		segment = size
	}
	if segment > r.limit {
		r.counts.add(tooBig, (size+segment-1)/segment)
		return 0
	}
	if segment >= size {
		if size > r.guess {
			r.gather(size, bufs)
			copy(bufs[0], r.whole[:size])
			r.guess = size
		}
		sizes[0] = size
		return 1
	}
	if segment != r.guess {
		r.gather(size, bufs)
	}
	n := 0
	for at := 0; at < size && n < len(bufs); n++ {
		sizes[n] = min(segment, size-at)
		if segment != r.guess {
			copy(bufs[n], r.whole[at:at+sizes[n]])
		}
		at += sizes[n]
	}
	r.guess = max(segment, smallestGuess)
	return n
}

// gather copies a message from where it was received to whole.
func (r *receiver) gather(size int, bufs [][]byte) {
	at := 0
	for i := 0; at < size; i++ {
		n := int(r.iovs[i].Len)
		at += copy(r.whole[at:size], bufs[i][:n])
	}
}

// from returns the endpoint that sent the message.
func (r *receiver) from() *endpoint {
	var a netip.Addr
	if *(*uint16)(unsafe.Pointer(&r.name)) == unix.AF_INET6 {
		a = netip.AddrFrom16((*unix.RawSockaddrInet6)(unsafe.Pointer(&r.name)).Addr)
	} else {
		a = netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(&r.name)).Addr)
	}
	key := netip.AddrPortFrom(a, uint16(r.name[2])<<8|uint16(r.name[3]))
	e := r.known[key]
	if e == nil {
		if len(r.known) >= maxKnown {
			clear(r.known)
		}
		e = newEndpoint(key)
		r.known[key] = e
	}
	return e
}
