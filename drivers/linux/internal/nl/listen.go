package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Listen opens a socket that receives the announcements of those groups, in the
// network namespace of the calling thread. Read returns whole datagrams, see
// [Messages], or ENOBUFS after some were lost. The kernel drops announcements
// caused by the sockets with the ignored ports.
func Listen(protocol int, groups []int, ignored ...uint32) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}), setReceiveBuffer(fd, rcvBuf))
	if len(ignored) > 0 {
		err = errors.Join(err, ignore(fd, ignored))
	}
	for _, group := range groups {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen to netlink announcements: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "netlink"), nil // in the runtime's poller
}

// ignore lets the kernel drop announcements caused by the sockets with these
// ports, before a goroutine wakes up: programming all peers causes thousands.
func ignore(fd int, ports []uint32) error {
	const portAt = 12 // in struct nlmsghdr
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: portAt}}
	for i, port := range ports {
		// The filter loads words in network order; netlink's are in host order.
		program = append(program, unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			K:    binary.BigEndian.Uint32(Native.AppendUint32(nil, port)),
			Jt:   uint8(len(ports) - i),
		})
	}
	program = append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	)
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
		Len: uint16(len(program)), Filter: &program[0],
	})
}
