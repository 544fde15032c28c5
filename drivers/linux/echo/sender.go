package echo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
)

// Sender is a [probe.Sender]. The small echoes of a family share a socket, so that one
// without an answer costs little more than its packet. Other probes have a socket and a
// goroutine each: the kernel reports that a packet was too large for a path to the socket
// that is connected to its receiver.
type Sender struct {
	ears   [2]*ear // by family; nil: cannot listen
	flight flight
}

var _ probe.Sender = (*Sender)(nil)

// New returns a sender that listens for the probes of other daemons until Close, if
// the host lets it.
func New() *Sender {
	s := &Sender{flight: flight{waiting: map[nonce]sentEcho{}}}
	for _, f := range cidr.Families {
		e, err := listen(f, &s.flight)
		if err == nil { // otherwise, sending fails too, and tells the reason
			s.ears[f] = e
		}
	}
	return s
}

// Close stops listening, and waits for no probe under way: small echoes end without an
// answer, the others end by themselves.
func (s *Sender) Close() error {
	s.flight.close()
	var errs []error
	for _, e := range s.ears {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

// Send implements [probe.Sender].
func (s *Sender) Send(r probe.Request, done func(probe.Answer)) {
	s.flight.expire(time.Now())
	r = withSource(r)
	if e := s.ears[cidr.FamilyOf(r.To)]; e != nil && r.Kind == probe.Echo {
		err := s.echo(e, r, done)
		if !errors.Is(err, unix.EAGAIN) { // if the socket is full, another may wait for its turn
			return
		}
	}
	go func() { done(Probe(r)) }()
}

// echo sends a small echo through an ear. Unless the socket is full, it sees to the answer.
func (s *Sender) echo(e *ear, r probe.Request, done func(probe.Answer)) error {
	m := requestOf(e.family, r)
	s.flight.begin(m.nonce, sentEcho{id: r.ID, to: r.To, sent: time.Now(), done: done})
	err := e.send(m, r.From, r.To)
	if err != nil && s.flight.cancel(m.nonce) && !errors.Is(err, unix.EAGAIN) {
		done(probe.Answer{ID: r.ID, TooBig: errors.Is(err, unix.EMSGSIZE)})
	}
	return err
}

// requestOf returns the echo request of a probe.
func requestOf(f cidr.Family, r probe.Request) message {
	m := newMessage(f, r.Size)
	m.host = r.Host
	_, _ = rand.Read(m.nonce[:])
	return m
}

// Heard implements [probe.Sender].
func (s *Sender) Heard() (heard []probe.Heard, listens bool) {
	for _, e := range s.ears {
		if e != nil {
			heard, listens = append(heard, e.take()...), true
		}
	}
	return heard, listens
}

// domains holds the kernel's name of a family.
var domains = [2]int{cidr.V4: unix.AF_INET, cidr.V6: unix.AF_INET6}

// Probe sends one probe and waits for its answer.
func Probe(r probe.Request) probe.Answer {
	r = withSource(r)
	answer := ping
	if r.Kind == probe.Connect {
		answer = connect
	}
	a := answer(r)
	a.ID = r.ID
	return a
}

// withSource returns a probe whose source is settled: From if the host has it, or needs it.
func withSource(r probe.Request) probe.Request {
	if r.FromOptional && !hasAddress(r.From) {
		r.From = netip.Addr{}
	}
	r.FromOptional = false
	return r
}

// hasAddress reports whether an address is one of the host's. The kernel sends to such an
// address from itself. That it lets a socket bind to an address says less: with
// net.ipv4.ip_nonlocal_bind it lets it bind to any.
func hasAddress(a netip.Addr) bool {
	fd, err := unix.Socket(domains[cidr.FamilyOf(a)], unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.Connect(fd, address(a)) != nil { // sends nothing
		return false
	}
	local, err := unix.Getsockname(fd)
	return err == nil && addressOf(local) == a
}

// connect tries TCP. A refusal is an answer, too.
func connect(r probe.Request) probe.Answer {
	dialer := net.Dialer{Timeout: probe.Timeout, KeepAlive: -1}
	if r.From.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(r.From, 0))
	}
	sent := time.Now()
	conn, err := dialer.DialContext(context.Background(), "tcp", netip.AddrPortFrom(r.To, probe.ClosedPort).String())
	if err == nil {
		_ = conn.Close() // a listener: it has nothing to say that matters
	}
	if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		return answered(sent)
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return unable("open a socket", err)
	}
	return probe.Answer{}
}

// ping sends an echo request.
func ping(r probe.Request) probe.Answer {
	f := cidr.FamilyOf(r.To)
	socket, err := open(f, echoReply[f])
	if err != nil {
		return unable("open a raw socket", err)
	}
	defer func() { _ = socket.Close() }()
	m := requestOf(f, r)
	if err := prepare(socket, f, r); err != nil {
		return probe.Answer{TooBig: errors.Is(err, unix.EMSGSIZE)}
	}
	sent := time.Now()
	_ = socket.SetDeadline(sent.Add(probe.Timeout)) // sockets have deadlines
	if _, err := socket.Write(m.bytes(f)); err != nil {
		return probe.Answer{TooBig: errors.Is(err, unix.EMSGSIZE)}
	}
	buffer := make([]byte, r.Size+maxHeader)
	for {
		n, err := socket.Read(buffer)
		if err != nil {
			return probe.Answer{TooBig: errors.Is(err, unix.EMSGSIZE)}
		}
		if kind, reply, ok := parse(f, buffer[:n]); ok && kind == echoReply[f] && reply.nonce == m.nonce {
			return answered(sent)
		}
	}
}

func answered(sent time.Time) probe.Answer {
	// The clock of some machines is too coarse for a round trip on the same host.
	return probe.Answer{OK: true, RTT: cmp.Or(time.Since(sent), time.Nanosecond)}
}

func unable(to string, err error) probe.Answer {
	return probe.Answer{Unable: fmt.Sprintf("%s: %v", to, err)}
}

// open makes a raw socket for the probes among the ICMP messages of some types.
func open(f cidr.Family, kinds ...uint8) (*os.File, error) {
	proto := unix.IPPROTO_ICMP
	if f == cidr.V6 {
		proto = unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(domains[f], unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return nil, err
	}
	program := filter(f, kinds...)
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("attach a filter: %w", err)
	}
	return os.NewFile(uintptr(fd), "icmp"), nil
}

// prepare gives a socket its addresses, and forbids it to fragment a large packet.
func prepare(socket *os.File, f cidr.Family, r probe.Request) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = errors.Join(unfragmented(int(fd), f, r), bind(int(fd), r.From), unix.Connect(int(fd), address(r.To)))
	})
	return errors.Join(err, refused)
}

// unfragmented makes the socket send packets with DF set, whatever
// the kernel has learnt about the path.
func unfragmented(fd int, f cidr.Family, r probe.Request) error {
	switch {
	case r.Kind != probe.Large:
		return nil
	case f == cidr.V4:
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1),
	)
}

func bind(fd int, from netip.Addr) error {
	if !from.IsValid() {
		return nil
	}
	return unix.Bind(fd, address(from))
}

func address(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}
