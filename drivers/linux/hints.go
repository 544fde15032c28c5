package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/internal/wake"
)

// hints listens to the kernel's announcements. They say when to look again, and
// whether the routes that the last look read may have changed. It owns one
// goroutine.
type hints struct {
	out  wake.Signal
	file *os.File // the listening socket
	done chan struct{}

	// Looks alone use these.
	filter nl.Filter // in force
	wired  []int     // links that lead elsewhere than to containers, by index

	mutex   sync.Mutex
	buf     []byte
	watched watched
	stale   bool // routes may have changed since the last call of routesChanged
	told    bool // there was a reason to look since the last call of news
	own     ownEntries
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
// not say which socket changed an FDB entry or deleted a neighbour: see [ownEntries].
func startHints(own ...uint32) (*hints, error) {
	h, err := newHints(own...)
	if err == nil {
		go h.listen()
	}
	return h, err
}

func newHints(own ...uint32) (*hints, error) {
	file, err := nl.Listen(unix.NETLINK_ROUTE, append(slices.Clone(groups), unix.RTNLGRP_NEXTHOP))
	if errors.Is(err, unix.EINVAL) { // a kernel without next hops
		file, err = nl.Listen(unix.NETLINK_ROUTE, groups)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for hints: %w", err)
	}
	h := &hints{
		out: wake.NewSignal(), file: file, done: make(chan struct{}), buf: make([]byte, nl.ReadSize),
		filter: nl.Filter{Ports: own},
	}
	if err := h.filter.Apply(file); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for hints: %w", err), file.Close())
	}
	return h, nil
}

// stop ends the goroutine and closes the socket.
func (h *hints) stop() error {
	err := h.file.Close()
	<-h.done
	return err
}

// watch sets the objects with which later announcements are compared, except for those that
// the last look returned. Those of links on which nothing watched depends do not wake the listener, except while
// the tables are being read, since any of these links may turn out to matter.
func (h *hints) watch(w watched) error {
	err := h.mind(w.indexes(h.wired))
	if err != nil {
		return err
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	w.seen = h.watched.seen
	h.watched = w
	return nil
}

// mind sets the links that matter; nil: all do.
func (h *hints) mind(links []int) error {
	if slices.Equal(links, h.filter.Links) && (links == nil) == (h.filter.Links == nil) {
		return nil
	}
	f := nl.Filter{Ports: h.filter.Ports, Links: links}
	err := f.Apply(h.file)
	if err == nil {
		h.filter = f
	}
	return err
}

// watchWired sets the links that lead elsewhere than to containers, such as an uplink with a name like theirs. The
// kernel may have kept to itself how a new one has changed since the look read the links, so there is a reason for
// another look.
func (h *hints) watchWired(wired []int) error {
	isNew := func(index int) bool { return !slices.Contains(h.filter.Links, index) }
	blind := h.filter.Links != nil && slices.ContainsFunc(wired, isNew)
	h.wired = wired
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if blind {
		h.told = true
		h.out.Send()
	}
	if h.filter.Links == nil {
		return nil
	}
	return h.mind(h.watched.indexes(wired))
}

// saw sets what the last look returned.
func (h *hints) saw(s *dataplane.State) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.watched.seen = s
}

// watchReach changes the addresses whose underlay routes matter.
func (h *hints) watchReach(to []netip.Addr) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.watched.extent.Reach = to
}

// routesChanged reports whether watched routes may have changed since
// the last call. The kernel queues an announcement before the call that caused it
// returns, so no change made before this call is missed.
func (h *hints) routesChanged() (changed bool, err error) {
	err = h.catchUp(func() { changed, h.stale = h.stale, false })
	return changed || err != nil, err
}

// news reports whether there was a reason to look since the last call. Like routesChanged
// it misses no change that was made before the call.
func (h *hints) news() (told bool, err error) {
	err = h.catchUp(func() { told, h.told = h.told, false })
	return told || err != nil, err
}

// catchUp reads the queued announcements and then calls do.
func (h *hints) catchUp(do func()) error {
	raw, err := h.file.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) {
		more := h.drain(int(fd))
		h.mutex.Lock()
		defer h.mutex.Unlock()
		h.stale, h.told = h.stale || more, h.told || more
		do()
	})
}

// listen reads announcements until the socket is closed.
func (h *hints) listen() {
	defer close(h.done)
	raw, err := h.file.SyscallConn()
	if err != nil { // closed
		return
	}
	_ = raw.Read(func(fd uintptr) bool { // its only error says that the socket was closed
		for h.drain(int(fd)) {
		}
		return false // wait for more
	})
}

// mostDrained is the number of announcements that are read at once: more than the receive buffer, which the kernel
// doubles, holds, since each takes 512 bytes of it or more.
const mostDrained = 2 * nl.ReceiveBuffer / 512

// drain reads all queued announcements. It returns true if there may be more, since they come as fast as it reads.
func (h *hints) drain(fd int) (more bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for range mostDrained {
		n, _, err := unix.Recvfrom(fd, h.buf, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOBUFS: // announcements were lost
			h.stale, h.told = true, true
			h.out.Send()
			continue
		case err != nil: // EAGAIN: the queue is empty
			return false
		}
		for m := range nl.Messages(h.buf[:n]) {
			hint, stale := h.watched.judge(m)
			h.stale = h.stale || stale
			if hint && !h.own.caused(m) {
				h.told = true
				h.out.Send()
			}
		}
	}
	return true
}
