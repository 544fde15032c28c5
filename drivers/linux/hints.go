package linux

import (
	"errors"
	"fmt"
	"net/netip"
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

	watched atomic.Pointer[watched]
}

// groups are the kinds of announcements that matter.
var groups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF, // settings such as IP forwarding
}

// startHints listens in the network namespace of the calling thread. Changes by
// the driver's own sockets, given by their ports, need no hint. The kernel does
// not say which socket changed an FDB entry or deleted a neighbour, so such a
// change leads to one hint.
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
	h.watch(watched{})
	return h, nil
}

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	err := h.file.Close()
	<-h.done
	return err
}

// watched holds the objects whose announcements matter.
type watched struct {
	links    map[int]string // links whose neighbours and FDB entries matter
	networks []netip.Prefix // networks into which every route matters
}

// watch sets the objects that the announcements are compared with.
func (h *hints) watch(w watched) { h.watched.Store(&w) }

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
	default: // a hint is waiting already
	}
}

// matters reports whether an announcement is a reason to look. On a busy host
// most are not: neighbours come and go on other links, and routes in other
// tables.
func (h *hints) matters(m nl.Message) bool {
	switch m.Kind {
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		e, ok := parseEntry(m.Body)
		if !ok {
			return false
		}
		if _, ours := h.watched.Load().links[e.index]; !ours {
			return false
		}
		// The announcement of a deleted entry does not say whether the entry
		// was permanent.
		return m.Kind == unix.RTM_DELNEIGH || e.state&unix.NUD_PERMANENT != 0
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		var r route
		return parseRoute(m.Body, &r) && h.watched.Load().route(&r)
	}
	return true
}

// route reports whether a route matters at once. The next look finds a routing
// daemon's route that leads elsewhere: a full BGP table changes all the time.
func (w *watched) route(r *route) bool {
	return !fromDaemon(r.protocol) || r.dst.Bits() == 0 || r.leavesBy(w.links) || contains(w.networks, r.dst)
}

// fromDaemon reports whether a route's protocol is that of a routing daemon
// (iproute2, etc/iproute2/rt_protos), of which a host may have a million.
func fromDaemon(protocol uint8) bool {
	switch protocol {
	case unix.RTPROT_BGP, unix.RTPROT_ISIS, unix.RTPROT_OSPF, unix.RTPROT_RIP, unix.RTPROT_EIGRP,
		unix.RTPROT_BIRD, unix.RTPROT_ZEBRA, unix.RTPROT_GATED, unix.RTPROT_BABEL, unix.RTPROT_XORP:
		return true
	}
	return false
}
