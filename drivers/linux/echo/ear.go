package echo

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
)

// maxHeard is the largest number of senders to remember. Any host may send probes.
const maxHeard = 1 << 14

// ear hears the probes of other daemons in one family, and the answers to the small
// echoes of this one, which leave through its socket.
type ear struct {
	family cidr.Family
	socket *os.File
	raw    syscall.RawConn
	flight *flight
	done   chan struct{}

	mu    sync.Mutex
	heard map[netip.Addr]time.Time
}

// listen starts to listen until close. Answers end the flight of their echo.
func listen(f cidr.Family, flying *flight) (*ear, error) {
	socket, err := open(f, echoRequest[f], echoReply[f])
	if err != nil {
		return nil, err
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	e := &ear{
		family: f, socket: socket, raw: raw, flight: flying, done: make(chan struct{}), heard: map[netip.Addr]time.Time{},
	}
	go e.run()
	return e, nil
}

func (e *ear) close() error {
	err := e.socket.Close()
	<-e.done
	return err
}

// run reads until the socket is closed.
func (e *ear) run() {
	defer close(e.done)
	buffer := make([]byte, 256) // the rest of a large packet does not matter
	for {
		err := e.raw.Read(func(fd uintptr) bool {
			n, from, err := unix.Recvfrom(int(fd), buffer, 0)
			if err == nil {
				e.received(buffer[:n], addressOf(from))
			}
			return err != unix.EAGAIN
		})
		if err != nil {
			return
		}
	}
}

// received takes a packet from a host, which may be anyone.
func (e *ear) received(packet []byte, from netip.Addr) {
	kind, m, ok := parse(e.family, packet)
	switch {
	case !ok || !from.IsValid():
		return
	case kind == echoReply[e.family]:
		e.flight.answered(m.nonce, from)
	case !m.host:
		e.remember(from)
	}
}

// remember remembers the sender of a probe.
func (e *ear) remember(sender netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.heard[sender]; known || len(e.heard) < maxHeard {
		e.heard[sender] = time.Now()
	}
}

// send sends an echo request without waiting.
func (e *ear) send(m message, from, to netip.Addr) error {
	var refused error
	err := e.raw.Control(func(fd uintptr) {
		refused = unix.Sendmsg(int(fd), m.bytes(e.family), source(from), address(to), 0)
	})
	return errors.Join(err, refused)
}

// source returns the control message that sets the source of a packet; an invalid
// address leaves it to the kernel.
func source(a netip.Addr) []byte {
	switch {
	case !a.IsValid():
		return nil
	case a.Is4():
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: a.As16()})
}

// take returns the senders since the last call.
func (e *ear) take() []probe.Heard {
	e.mu.Lock()
	defer e.mu.Unlock()
	var heard []probe.Heard
	for from, at := range e.heard {
		heard = append(heard, probe.Heard{From: from, At: at})
	}
	clear(e.heard)
	return heard
}

func addressOf(a unix.Sockaddr) netip.Addr {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr)
	}
	return netip.Addr{}
}
