package wireguard

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/flanneld/flannel/core/udppath"
)

const (
	// batch is the number of packets that go through the library together.
	batch = 128

	maxPacket = 65535

	// minGuess is the smallest piece that is guessed: the buffers of one batch
	// take a whole packet in such pieces.
	minGuess = maxPacket/batch + 1
)

// queue is the TUN device as the library reads and writes it.
//
// A packet that the kernel left whole is read straight into the buffers of the
// packets that it becomes: each buffer leaves room for the headers before its
// piece of the payload. That takes a guess of the sizes before the read, which is
// the sizes of the packet before; a wrong guess costs a copy.
//
// A buffer has room for limit bytes behind the offset; larger packets are dropped.
type queue struct {
	file   *os.File
	fd     int
	raw    syscall.RawConn
	name   string
	limit  int // bytes of the largest packet
	mtu    atomic.Int32
	uso    bool
	events chan tun.Event
	close  sync.Mutex
	closed bool
	counts *counts

	started chan struct{} // closed once the library has its buffers

	// of Read
	guess guess
	cut   cutter
	front [udppath.VnetSize + maxHeaders]byte
	whole []byte // a packet that was guessed wrong
	rest  []byte // the part of its payload that is not cut yet
	iovs  []unix.Iovec
	wait  bool
	n     int
	errno unix.Errno
	poll  func(fd uintptr) bool

	writers sync.Pool
}

// guess is the expected shape of the next packet.
type guess struct{ headers, piece int }

func newQueue(fd int, name string, mtu, limit int, uso bool, counts *counts) (*queue, error) {
	file := os.NewFile(uintptr(fd), "/dev/net/tun")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	q := &queue{
		file: file, fd: fd, raw: raw, name: name, limit: limit, uso: uso, counts: counts,
		events: make(chan tun.Event, 1), started: make(chan struct{}),
		guess: guess{headers: minIPv4 + minTCP + 12, piece: mtu - minIPv4 - minTCP - 12},
		whole: make([]byte, maxPacket),
	}
	q.mtu.Store(int32(mtu))
	q.poll = q.tryRead
	q.writers.New = func() any { return &writer{joiner: udppath.NewJoiner(q.uso)} }
	return q, nil
}

func (q *queue) File() *os.File           { return q.file }
func (q *queue) MTU() (int, error)        { return int(q.mtu.Load()), nil }
func (q *queue) Name() (string, error)    { return q.name, nil }
func (q *queue) Events() <-chan tun.Event { return q.events }

// BatchSize implements [tun.Device]. It waits for the buffers, see [start].
func (q *queue) BatchSize() int {
	<-q.started
	return batch
}

// Close implements [tun.Device].
func (q *queue) Close() error {
	q.close.Lock()
	defer q.close.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	close(q.events)
	return q.file.Close()
}

// setMTU tells the library that the TUN device has another MTU.
func (q *queue) setMTU(mtu int) {
	q.close.Lock()
	defer q.close.Unlock()
	if q.mtu.Swap(int32(mtu)) == int32(mtu) || q.closed {
		return
	}
	select {
	case q.events <- tun.EventMTUUpdate:
	default: // the library has not read the former MTU yet
	}
}

// Read implements [tun.Device]. It waits for a packet, and then takes as many as
// there are and as have room.
func (q *queue) Read(bufs [][]byte, sizes []int, offset int) (n int, err error) {
	for {
		n += q.cutRest(bufs[n:], sizes[n:], offset)
		if n > 0 && len(bufs)-n < maxPacket/q.guess.piece+1 {
			return n, nil
		}
		size, err := q.readInto(bufs[n:], offset, n == 0)
		if err != nil || size == 0 {
			return n, err
		}
		if size < udppath.VnetSize+minIPv4 {
			q.counts.add(truncated, 1)
			continue
		}
		n += q.open(size, bufs[n:], sizes[n:], offset)
	}
}

// readInto reads one packet: its headers into front, its payload into bufs. It
// waits for one if told so, and returns 0 if there is none.
func (q *queue) readInto(bufs [][]byte, offset int, wait bool) (int, error) {
	g := q.guess
	q.iovs = append(q.iovs[:0], iovec(q.front[:udppath.VnetSize+g.headers]))
	left := maxPacket - g.headers
	for _, b := range bufs {
		if left <= 0 {
			break
		}
		q.iovs = append(q.iovs, iovec(b[offset+g.headers:offset+g.headers+g.piece]))
		left -= g.piece
	}
	q.wait = wait
	if q.raw.Read(q.poll) != nil {
		return 0, os.ErrClosed
	}
	switch q.errno {
	case 0:
		return q.n, nil
	case unix.EAGAIN:
		return 0, nil
	case unix.EBADFD, unix.EBADF, unix.EFAULT:
		return 0, os.ErrClosed
	}
	return 0, q.errno
}

// tryRead reads without waiting, and reports whether there is a result.
func (q *queue) tryRead(fd uintptr) bool {
	q.n, q.errno = readv(int(fd), q.iovs)
	return q.errno != unix.EAGAIN || !q.wait
}

// open makes packets for the wire of what was read, and returns how many. A
// packet that is not valid becomes none.
func (q *queue) open(size int, bufs [][]byte, sizes []int, offset int) int {
	vnet := udppath.ParseVnet((*[udppath.VnetSize]byte)(q.front[:]))
	size -= udppath.VnetSize
	headers := q.front[udppath.VnetSize : udppath.VnetSize+min(size, q.guess.headers)]
	if vnet.GSOType == udppath.VnetGSONone {
		return q.openSingle(vnet, headers, size, bufs, sizes, offset)
	}
	if q.cut.start(headers, vnet) != nil || q.cut.size != q.guess.headers || q.cut.piece != q.guess.piece {
		return q.openOther(vnet, headers, size, bufs, sizes, offset)
	}
	left := size - q.cut.size
	n := 0
	for ; left > 0; n++ {
		piece := min(left, q.cut.piece)
		left -= piece
		sizes[n] = q.cut.size + piece
		q.cut.finish(bufs[n][offset:offset+sizes[n]], left == 0)
	}
	return n
}

// openSingle opens a packet that needs no cut.
func (q *queue) openSingle(v udppath.Vnet, headers []byte, size int, bufs [][]byte, sizes []int, offset int) int {
	if size > q.limit {
		q.counts.add(tooBig, 1)
		return 0
	}
	packet := bufs[0][offset : offset+size]
	if size > q.guess.headers+q.guess.piece {
		q.gather(headers, size, bufs, offset)
		copy(packet, q.whole[:size])
	}
	copy(packet, headers)
	if complete(packet, v) != nil {
		q.counts.add(badOffload, 1)
		return 0
	}
	sizes[0] = size
	return 1
}

// openOther opens a packet whose sizes were guessed wrong, and guesses that the
// next has the same.
func (q *queue) openOther(v udppath.Vnet, headers []byte, size int, bufs [][]byte, sizes []int, offset int) int {
	q.gather(headers, size, bufs, offset)
	packet := q.whole[:size]
	if q.cut.start(packet, v) != nil || size <= q.cut.size {
		q.counts.add(badOffload, 1)
		return 0
	}
	if q.cut.size+q.cut.piece > q.limit {
		q.counts.add(tooBig, 1)
		return 0
	}
	if q.cut.piece >= minGuess {
		q.guess = guess{headers: q.cut.size, piece: q.cut.piece}
	}
	q.rest = packet[q.cut.size:]
	return q.cutRest(bufs, sizes, offset)
}

// gather copies a packet from where it was read to whole.
func (q *queue) gather(headers []byte, size int, bufs [][]byte, offset int) {
	at := copy(q.whole, headers)
	for i := 0; at < size; i++ {
		b := bufs[i][offset+q.guess.headers:]
		at += copy(q.whole[at:size], b[:q.guess.piece])
	}
}

// cutRest cuts what is left of a packet, as far as there are buffers.
func (q *queue) cutRest(bufs [][]byte, sizes []int, offset int) (n int) {
	for ; len(q.rest) > 0 && n < len(bufs); n++ {
		piece := q.rest[:min(len(q.rest), q.cut.piece)]
		q.rest = q.rest[len(piece):]
		sizes[n] = q.cut.size + len(piece)
		packet := bufs[n][offset : offset+sizes[n]]
		copy(packet[q.cut.size:], piece)
		q.cut.finish(packet, len(q.rest) == 0)
	}
	return n
}

// writer joins packets and gives them to the device.
type writer struct {
	joiner *udppath.Joiner
	vnet   [udppath.VnetSize]byte
	iovs   []unix.Iovec
}

// Write implements [tun.Device]. It may be called by several goroutines.
func (q *queue) Write(bufs [][]byte, offset int) (int, error) {
	w := q.writers.Get().(*writer)
	defer q.writers.Put(w)
	for _, b := range bufs {
		w.joiner.Add(b[offset:])
	}
	var err error
	refused := 0
	for {
		j, ok := w.joiner.Next()
		if !ok {
			q.counts.add(carried, len(bufs)-refused)
			q.counts.add(deviceRefused, refused)
			return len(bufs), err
		}
		j.Vnet.Put(&w.vnet)
		w.iovs = append(w.iovs[:0], iovec(w.vnet[:]))
		for _, p := range j.Pieces {
			w.iovs = append(w.iovs, iovec(p))
		}
		errno := writev(q.fd, w.iovs)
		if errno != 0 {
			refused += len(j.Pieces)
		}
		if errno == unix.EBADFD {
			err = os.ErrClosed
		}
	}
}

func iovec(b []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

// readv and writev return at once, so the scheduler need not know of them.

func readv(fd int, iovs []unix.Iovec) (int, unix.Errno) { return vector(unix.SYS_READV, fd, iovs) }

func writev(fd int, iovs []unix.Iovec) unix.Errno {
	_, errno := vector(unix.SYS_WRITEV, fd, iovs)
	return errno
}

func vector(call uintptr, fd int, iovs []unix.Iovec) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(iovs))), uintptr(len(iovs)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
