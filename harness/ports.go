package harness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// TakePort binds a UDP port at all IPv4 addresses of the host, as another
// program would, and reads nothing.
func (h *Host) TakePort(port uint16) error {
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	return h.Do(func() error {
		conn, err := net.ListenUDP("udp4", at)
		if err != nil {
			return fmt.Errorf("host %s: take a port: %w", h.Name, err)
		}
		h.ports[port] = conn
		return nil
	})
}

// LeavePort undoes TakePort.
func (h *Host) LeavePort(port uint16) error {
	conn, taken := h.ports[port]
	if !taken {
		return fmt.Errorf("host %s: port %d is not taken", h.Name, port)
	}
	delete(h.ports, port)
	return conn.Close()
}

// SendUDP sends one datagram from the host, from a port that the kernel
// chooses.
func (h *Host) SendUDP(to netip.AddrPort, payload []byte) error {
	return h.Do(func() error {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return fmt.Errorf("host %s: send to %s: %w", h.Name, to, err)
		}
		_, err = conn.Write(payload)
		return errors.Join(err, conn.Close())
	})
}
