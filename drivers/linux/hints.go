package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// hints listens to what the kernel announces and says when to look again.
// It owns the driver's one goroutine.
type hints struct {
	out  chan struct{}
	file *os.File // the listening socket, in the runtime's poller
	done chan struct{}

	links atomic.Pointer[map[int]string] // links whose neighbours and FDB matter
}

// groups are the announcements listened to.
var groups = [...]int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

// startHints listens in the network namespace of the calling thread. What the
// driver does by its own sockets, given by their ports, needs no hint. The
// kernel does not sign FDB entries and deleted neighbours; these give one.
func startHints(own ...uint32) (*hints, error) {
	h, err := newHints(own...)
	if err == nil {
		go h.listen()
	}
	return h, err
}

func newHints(own ...uint32) (*hints, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket for hints: %w", err)
	}
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}), growReceiveBuffer(fd), ignore(fd, own))
	for _, group := range groups {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for hints: %w", err), unix.Close(fd))
	}
	h := &hints{
		out:  make(chan struct{}, 1),
		file: os.NewFile(uintptr(fd), "rtnetlink"),
		done: make(chan struct{}),
	}
	h.watch(nil)
	return h, nil
}

// ignore has the kernel drop the announcements of what the sockets with these
// ports cause, before anybody is woken: when all peers are programmed, there
// are thousands.
func ignore(fd int, ports []uint32) error {
	const portAt = 12 // in struct nlmsghdr
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: portAt}}
	for i, port := range ports {
		// The filter loads words as the network has them; netlink's are the host's.
		program = append(program, unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: binary.BigEndian.Uint32(native.AppendUint32(nil, port)),
			Jt: uint8(len(ports) - i),
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

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	err := h.file.Close()
	<-h.done
	return err
}

// watch says on which links neighbours and FDB entries matter.
func (h *hints) watch(links map[int]string) { h.links.Store(&links) }

func (h *hints) listen() {
	defer close(h.done)
	buf := make([]byte, readSize)
	for {
		n, err := h.file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS): // announcements were lost
			h.give()
			continue
		case err != nil: // closed
			return
		}
		for m := range messages(buf[:n]) {
			if h.matters(m) {
				h.give()
				break
			}
		}
	}
}

func (h *hints) give() {
	select {
	case h.out <- struct{}{}:
	default: // one is waiting already
	}
}

// matters tells whether an announcement is a reason to look. On a busy host
// most are not: neighbours that come and go by themselves on other links, and
// routes of other tables.
func (h *hints) matters(m message) bool {
	switch m.kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		e, ok := parseEntry(m.body)
		if !ok {
			return false
		}
		if _, ours := (*h.links.Load())[e.index]; !ours {
			return false
		}
		// What is deleted does not tell any more whether it was permanent.
		return m.kind == unix.RTM_DELNEIGH || e.state&unix.NUD_PERMANENT != 0
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		var r route
		return parseRoute(m.body, &r)
	}
	return true
}
