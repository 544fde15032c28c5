package tunnel

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// socketBuffer is the room for packets that arrive while the loop is busy. With
// the kernel's default of 208 KiB a single TCP stream loses packets in bursts, and
// a quarter of its speed. More room gains nothing.
const socketBuffer = 8 << 20

// listen opens the socket at which peers reach this node. Outer packets are
// like those of any socket: they carry DF unless they are larger than the known
// MTU of the path; the kernel fragments larger ones here.
func listen(local netip.AddrPort) (int, error) {
	if !local.Addr().Is4() {
		return -1, fmt.Errorf("listen on UDP %s: %w", local, unix.EAFNOSUPPORT)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open UDP socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(local.Port()), Addr: local.Addr().As4()})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		err = fmt.Errorf("%w: another process has the port, perhaps another flanneld; "+
			"stop it, or choose another Port for all nodes", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		err = fmt.Errorf("%w: no link has this address", err)
	case errors.Is(err, unix.EACCES):
		err = fmt.Errorf("%w: a port below 1024 takes CAP_NET_BIND_SERVICE", err)
	}
	if err == nil {
		err = errors.Join(
			grow(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF),
			grow(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF))
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("listen on UDP %s: %w", local, err), unix.Close(fd))
	}
	return fd, nil
}

// grow enlarges a buffer of a socket, past the host's limit if the process has
// the privilege.
func grow(fd, force, ask int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, socketBuffer) == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, ask, socketBuffer)
}
