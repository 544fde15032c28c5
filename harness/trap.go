package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness/internal/netspace"
)

// trap kills a daemon in the middle of its changes to its kernel.
type trap struct {
	socket *nl.NetlinkSocket // the kernel's announcements of changes
	target atomic.Pointer[netspace.Process]
}

// changes are the rtnetlink groups that announce the objects flanneld changes.
var changes = [...]uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
	unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

// KillAtChange kills the daemon when the node's kernel has announced that many
// changes, counted from now on if the daemon runs, and otherwise from its next
// start. Changes of neighbours that the kernel makes by itself do not count. The
// daemon may get some steps further before it is dead. 0 cancels the trap.
func (n *Node) KillAtChange(count int) error {
	if n.trap != nil {
		n.trap.socket.Close()
		n.trap = nil
	}
	if count == 0 {
		return nil
	}
	t := &trap{}
	err := n.Do(func() (err error) {
		t.socket, err = nl.Subscribe(unix.NETLINK_ROUTE, changes[:]...)
		return err
	})
	if err != nil {
		return fmt.Errorf("node %s: listen to its kernel: %w", n.Name, err)
	}
	if n.Running() {
		t.target.Store(n.proc)
	}
	n.trap = t
	go t.wait(count)
	return nil
}

// wait counts the changes while there is a daemon. It ends with the socket.
func (t *trap) wait(left int) {
	defer t.socket.Close()
	for {
		messages, _, err := t.socket.Receive()
		target := t.target.Load()
		switch {
		case errors.Is(err, unix.ENOBUFS): // more than the socket holds: enough
			left = 0
		case err != nil: // called off
			return
		}
		for _, m := range messages {
			if target != nil && !ofItself(m.Header.Type, m.Data) {
				left--
			}
		}
		if left <= 0 && target != nil {
			_ = target.Kill() // the process ends now, and Wait reports it
			return
		}
	}
}

// ofItself reports whether a change concerns a neighbour that the kernel made by
// itself.
func ofItself(kind uint16, data []byte) bool {
	const stateAt = 8 // in struct ndmsg
	if kind != unix.RTM_NEWNEIGH && kind != unix.RTM_DELNEIGH || len(data) < stateAt+2 {
		return false
	}
	return binary.NativeEndian.Uint16(data[stateAt:])&unix.NUD_PERMANENT == 0
}
