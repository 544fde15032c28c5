package wireguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"github.com/flanneld/flannel/core/udppath"
)

// maxSegments is the most that the kernel joins or takes as one message.
const maxSegments = udppath.MaxMessageSegments

// socketBuffer is the room for packets that arrive while the device is busy.
const socketBuffer = 8 << 20

// bind is the library's UDP sockets, one a family. It takes several datagrams of
// one size as one message from the kernel (UDP_GRO), read straight into the
// buffers of the packets, and gives them to it as one (UDP_SEGMENT).
type bind struct {
	mu      sync.Mutex
	sockets [2]atomic.Pointer[socket] // by family: IPv4, IPv6
	senders sync.Pool
	limit   int         // bytes of the largest message that is received
	old     atomic.Bool // the kernel has no UDP_SEGMENT
	counts  *counts
	crosses *crossing
	closed  chan struct{} // that the sockets are; nil while there are none
}

func newBind(limit int, counts *counts) *bind {
	b := &bind{limit: limit, counts: counts, crosses: newCrossing()}
	b.senders.New = func() any { return new(sender) }
	return b
}

// endpoint is the address of a peer. Endpoints are shared and never change.
type endpoint struct {
	netip.AddrPort
	v6   bool
	name [unix.SizeofSockaddrInet6]byte // as the kernel has it
	size uint32
}

func newEndpoint(a netip.AddrPort) *endpoint {
	e := &endpoint{AddrPort: a, v6: a.Addr().Is6()}
	port := [2]byte{byte(a.Port() >> 8), byte(a.Port())}
	if e.v6 {
		sa := (*unix.RawSockaddrInet6)(unsafe.Pointer(&e.name))
		sa.Family, sa.Addr = unix.AF_INET6, a.Addr().As16()
		copy(e.name[2:], port[:])
		e.size = unix.SizeofSockaddrInet6
		return e
	}
	sa := (*unix.RawSockaddrInet4)(unsafe.Pointer(&e.name))
	sa.Family, sa.Addr = unix.AF_INET, a.Addr().As4()
	copy(e.name[2:], port[:])
	e.size = unix.SizeofSockaddrInet4
	return e
}

func (e *endpoint) ClearSrc()           {}
func (e *endpoint) SrcToString() string { return "" }
func (e *endpoint) SrcIP() netip.Addr   { return netip.Addr{} }
func (e *endpoint) DstToString() string { return e.AddrPort.String() }
func (e *endpoint) DstIP() netip.Addr   { return e.Addr() }
func (e *endpoint) DstToBytes() []byte {
	b, _ := e.MarshalBinary()
	return b
}

// ParseEndpoint implements [conn.Bind].
func (*bind) ParseEndpoint(s string) (conn.Endpoint, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return nil, err
	}
	return newEndpoint(netip.AddrPortFrom(a.Addr().Unmap(), a.Port())), nil
}

// BatchSize implements [conn.Bind].
func (*bind) BatchSize() int { return batch }

// Open implements [conn.Bind].
func (b *bind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sockets[0].Load() != nil || b.sockets[1].Load() != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	var fns []conn.ReceiveFunc
	for i, network := range []string{"udp4", "udp6"} {
		s, err := openSocket(network, port)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			return nil, 0, errors.Join(err, b.closeLocked())
		}
		port = uint16(s.conn.LocalAddr().(*net.UDPAddr).Port)
		b.sockets[i].Store(s)
		b.old.Store(s.old)
		fns = append(fns, newReceiver(s, b.limit, b.counts, b.crosses).receive)
	}
	if len(fns) == 0 {
		return nil, 0, unix.EAFNOSUPPORT
	}
	b.closed = make(chan struct{})
	return append(fns, b.crosses.receiver(b.closed)), port, nil
}

// Close implements [conn.Bind].
func (b *bind) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closeLocked()
}

func (b *bind) closeLocked() error {
	if b.closed != nil {
		close(b.closed)
		b.closed = nil
	}
	var errs []error
	for i := range b.sockets {
		if s := b.sockets[i].Swap(nil); s != nil {
			errs = append(errs, s.conn.Close())
		}
	}
	return errors.Join(errs...)
}

// SetMark implements [conn.Bind]. Nothing here sets a mark.
func (*bind) SetMark(uint32) error { return nil }

// Send implements [conn.Bind].
func (b *bind) Send(bufs [][]byte, ep conn.Endpoint) error {
	e := ep.(*endpoint)
	i := 0
	if e.v6 {
		i = 1
	}
	s := b.sockets[i].Load()
	if s == nil {
		return unix.EAFNOSUPPORT
	}
	b.crosses.sends(bufs, e)
	out := b.senders.Get().(*sender)
	defer b.senders.Put(out)
	return out.send(s, bufs, e, b.counts)
}

// narrowTime is how long a socket sends single packets after the kernel refused a
// message of several: the path to a peer may be too narrow for one of them, or its
// device may refuse it.
const narrowTime = 30 * time.Second

// socket is a UDP socket.
type socket struct {
	conn    *net.UDPConn
	raw     syscall.RawConn
	old     bool         // the kernel has no UDP_SEGMENT
	refused atomic.Int64 // when the kernel last refused a message of several packets, 0 for never
}

// single reports whether each packet is a message of its own for now.
func (s *socket) single() bool {
	at := s.refused.Load()
	return s.old || at != 0 && time.Now().UnixNano()-at < int64(narrowTime)
}

func openSocket(network string, port uint16) (*socket, error) {
	old := false
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
				if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o[0], socketBuffer) != nil {
					_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o[1], socketBuffer)
				}
			}
			_ = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_GRO, 1) // without it packets come one by one
			old = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 0) != nil
		})
	}}
	c, err := config.ListenPacket(context.Background(), network, ":"+strconv.Itoa(int(port)))
	if err != nil {
		return nil, err
	}
	s := &socket{conn: c.(*net.UDPConn), old: old}
	s.raw, err = s.conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}
