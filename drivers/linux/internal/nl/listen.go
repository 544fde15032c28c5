package nl

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Listen opens a socket that receives the announcements of those groups, in the
// network namespace of the calling thread. Read returns whole datagrams, see
// [Messages], or ENOBUFS after some were lost.
func Listen(protocol int, groups []int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}), setReceiveBuffer(fd, ReceiveBuffer))
	for _, group := range groups {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to netlink announcements: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "netlink"), nil // in the runtime's poller
}
