package linux

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// hints listens to the kernel's announcements and says when to look again. It
// owns the driver's one goroutine.
type hints struct {
	out  chan struct{}
	file *os.File // the listening socket
	done chan struct{}

	links atomic.Pointer[map[int]string] // links whose neighbours and FDB matter
}

// groups are the kinds of announcements that matter.
var groups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

// startHints listens in the network namespace of the calling thread. Changes by
// the driver's own sockets, given by their ports, need no hint. The kernel does
// not sign FDB entries and deleted neighbours, so these lead to one.
func startHints(own ...uint32) (*hints, error) {
	h, err := newHints(own...)
	if err == nil {
		go h.listen()
	}
	return h, err
}

func newHints(own ...uint32) (*hints, error) {
	file, err := nl.Listen(unix.NETLINK_ROUTE, groups, own...)
	if err != nil {
		return nil, fmt.Errorf("listen for hints: %w", err)
	}
	h := &hints{out: make(chan struct{}, 1), file: file, done: make(chan struct{})}
	h.watch(nil)
	return h, nil
}

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	err := h.file.Close()
	<-h.done
	return err
}

// watch sets the links whose neighbours and FDB entries matter.
func (h *hints) watch(links map[int]string) { h.links.Store(&links) }

func (h *hints) listen() {
	defer close(h.done)
	buf := make([]byte, nl.ReadSize)
	for {
		n, err := h.file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS): // announcements were lost
			h.give()
			continue
		case err != nil: // closed
			return
		}
		for m := range nl.Messages(buf[:n]) {
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

// matters reports whether an announcement is a reason to look. On a busy host
// most are not: neighbours that come and go on other links, and routes of other
// tables.
func (h *hints) matters(m nl.Message) bool {
	switch m.Kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		e, ok := parseEntry(m.Body)
		if !ok {
			return false
		}
		if _, ours := (*h.links.Load())[e.index]; !ours {
			return false
		}
		// A deleted entry does not say whether it was permanent.
		return m.Kind == unix.RTM_DELNEIGH || e.state&unix.NUD_PERMANENT != 0
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		var r route
		return parseRoute(m.Body, &r)
	}
	return true
}
