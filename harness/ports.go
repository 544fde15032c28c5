package harness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// TakePort binds a UDP port at all IPv4 addresses of the host, as another
// program would. Only [Host.Received] reads.
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

// Received returns how many datagrams have come to a port that TakePort holds.
func (h *Host) Received(port uint16) (int, error) {
	conn, taken := h.ports[port]
	if !taken {
		return 0, fmt.Errorf("host %s: port %d is not taken", h.Name, port)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Read(func(fd uintptr) bool {
		for b := make([]byte, 1); ; h.received[port]++ {
			_, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
			if err != nil {
				return true
			}
		}
	})
	return h.received[port], err
}

// LeavePort undoes TakePort.
func (h *Host) LeavePort(port uint16) error {
	conn, taken := h.ports[port]
	if !taken {
		return fmt.Errorf("host %s: port %d is not taken", h.Name, port)
	}
	delete(h.ports, port)
	delete(h.received, port)
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
