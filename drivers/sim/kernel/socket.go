package kernel

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// socket is a UDP socket that a process of the host has bound. A socket at an
// unspecified address gets datagrams for any of the host's addresses.
type socket struct {
	local   netip.AddrPort
	deliver func(h ipHeader, d udpDatagram, p *Probe)
}

// bind makes a socket, as bind(2) does without SO_REUSEADDR.
func (s *stack) bind(local netip.AddrPort, deliver func(ipHeader, udpDatagram, *Probe)) (*socket, error) {
	a := local.Addr()
	if !a.IsUnspecified() && !s.isLocal(a) {
		return nil, fmt.Errorf("%s is no address of this host: %w", a, driver.ErrNotFound) // EADDRNOTAVAIL
	}
	taken := slices.ContainsFunc(s.sockets, func(o *socket) bool { return o.overlaps(local) })
	if taken || s.vxlanAt(local.Port(), cidr.FamilyOf(a)) != nil {
		return nil, fmt.Errorf("%s is taken: %w", local, driver.ErrBusy) // EADDRINUSE
	}
	k := &socket{local, deliver}
	s.sockets = append(s.sockets, k)
	return k, nil
}

func (s *stack) unbind(k *socket) {
	s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == k })
}

// overlaps reports whether two sockets of one family compete for the same
// datagrams.
func (k *socket) overlaps(local netip.AddrPort) bool {
	a, b := k.local.Addr(), local.Addr()
	return k.local.Port() == local.Port() && cidr.FamilyOf(a) == cidr.FamilyOf(b) &&
		(a == b || a.IsUnspecified() || b.IsUnspecified())
}

// socketAt returns the socket that gets datagrams for an address, or nil.
func (s *stack) socketAt(dst netip.AddrPort) *socket {
	for _, k := range s.sockets {
		if k.overlaps(dst) {
			return k
		}
	}
	return nil
}

// boundAt reports whether any process has a port.
func (s *stack) boundAt(port uint16, f cidr.Family) bool {
	return slices.ContainsFunc(s.sockets, func(k *socket) bool {
		return k.local.Port() == port && cidr.FamilyOf(k.local.Addr()) == f
	})
}

// vxlanAt returns a vxlan link that listens at a port, at all addresses of a
// family, or nil.
func (s *stack) vxlanAt(port uint16, f cidr.Family) *link {
	for _, l := range s.links {
		if v, ok := l.device.(*vxlanDevice); ok && l.up && v.Port == port && v.outer == f {
			return l
		}
	}
	return nil
}

// Received returns how many datagrams have come to a port that [Host.TakePort] holds.
func (h *Host) Received(port uint16) (int, error) { return h.stack.received[port], nil }

// TakePort makes another program bind a UDP port at all IPv4 addresses and
// discard what it gets.
func (h *Host) TakePort(port uint16) error {
	s := h.stack
	_, err := s.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), port), func(_ ipHeader, d udpDatagram, p *Probe) {
		if s.received == nil {
			s.received = map[uint16]int{}
		}
		s.received[port]++
		s.drop(p, DropNoListener, fmt.Sprintf("port %d belongs to another program", d.dst))
	})
	return h.action(err, "take port %d", port)
}

// SendUDP sends one datagram from an unused port.
func (h *Host) SendUDP(to netip.AddrPort, payload []byte) error {
	s := h.stack
	outer := ipHeader{src: s.sourceFor(to.Addr()), dst: to.Addr(), proto: protoUDP}
	if !outer.src.IsValid() {
		return fmt.Errorf("%s: send to %s: %w", h.name, to, driver.ErrUnreachable)
	}
	datagram := udpDatagram{src: 40000, dst: to.Port(), body: payload}
	s.send(outer, datagram.payload(&outer), nil)
	return nil
}

// LeavePort ends the program of [Host.TakePort].
func (h *Host) LeavePort(port uint16) error {
	k := h.stack.socketAt(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	if k == nil || !k.local.Addr().IsUnspecified() {
		return h.action(fmt.Errorf("no program has the port: %w", driver.ErrNotFound), "leave port %d", port)
	}
	h.stack.unbind(k)
	delete(h.stack.received, port)
	return h.action(nil, "leave port %d", port)
}

// UDPSocket is a program's UDP socket.
type UDPSocket struct {
	stack  *stack
	socket *socket
}

// ListenUDP makes a program bind a UDP port at all IPv4 addresses. The function gets
// each datagram with its sender and the address that it was sent to.
func (h *Host) ListenUDP(port uint16, fn func(from netip.AddrPort, to netip.Addr, body []byte)) (*UDPSocket, error) {
	s := h.stack
	k, err := s.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), port), func(h ipHeader, d udpDatagram, _ *Probe) {
		fn(netip.AddrPortFrom(h.src, d.src), h.dst, d.body)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: listen at UDP port %d: %w", h.name, port, err)
	}
	return &UDPSocket{s, k}, nil
}

// Send sends a datagram from an address of the host. It may be lost.
func (u *UDPSocket) Send(from netip.Addr, to netip.AddrPort, body []byte) {
	if !u.stack.isLocal(from) {
		return
	}
	outer := ipHeader{src: from, dst: to.Addr(), proto: protoUDP}
	d := udpDatagram{src: u.socket.local.Port(), dst: to.Port(), body: body}
	u.stack.send(outer, d.payload(&outer), nil)
}

// Close releases the port.
func (u *UDPSocket) Close() { u.stack.unbind(u.socket) }
