// Package wholedump reads the tables of the kernel's network as a whole. The kernel answers a
// request for a table, a dump, in parts; when the table changes between two parts, the answer may
// lack an entry or have it twice, and the kernel marks it (NLM_F_DUMP_INTR). The netlink library
// returns such an answer together with [netlink.ErrDumpInterrupted]. A [Handle] asks again instead.
package wholedump

import (
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// maxTries bounds how often a table that keeps changing is read. A change on its own costs one
// more try.
const maxTries = 100

// Handle is a [netlink.Handle] whose lists are whole. After maxTries changed answers a list
// returns the last one with [netlink.ErrDumpInterrupted].
type Handle struct{ *netlink.Handle }

// Here reads the tables of the network namespace that the calling thread is in.
var Here = &Handle{&netlink.Handle{}}

// New returns a handle with sockets of these netlink families, all for none, in the network
// namespace of the calling thread.
func New(families ...int) (*Handle, error) {
	h, err := netlink.NewHandle(families...)
	if err != nil {
		return nil, err
	}
	return &Handle{h}, nil
}

// At is like [New] for a given network namespace.
func At(space netns.NsHandle, families ...int) (*Handle, error) {
	h, err := netlink.NewHandleAt(space, families...)
	if err != nil {
		return nil, err
	}
	return &Handle{h}, nil
}

// whole repeats a list until no change interrupted it.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range maxTries {
		all, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, err
}

// LinkList returns all devices.
func (h *Handle) LinkList() ([]netlink.Link, error) { return whole(h.Handle.LinkList) }

// AddrList returns the addresses of a device, of all devices for nil.
func (h *Handle) AddrList(link netlink.Link, family int) ([]netlink.Addr, error) {
	return whole(func() ([]netlink.Addr, error) { return h.Handle.AddrList(link, family) })
}

// NeighList returns the neighbours, or with AF_BRIDGE the forwarding entries, of a device; of all
// devices for index 0.
func (h *Handle) NeighList(index, family int) ([]netlink.Neigh, error) {
	return whole(func() ([]netlink.Neigh, error) { return h.Handle.NeighList(index, family) })
}

// RouteListFiltered returns the routes that equal filter in the fields that mask names.
func (h *Handle) RouteListFiltered(family int, filter *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return whole(func() ([]netlink.Route, error) { return h.Handle.RouteListFiltered(family, filter, mask) })
}

// XfrmPolicyList returns the IPsec policies.
func (h *Handle) XfrmPolicyList(family int) ([]netlink.XfrmPolicy, error) {
	return whole(func() ([]netlink.XfrmPolicy, error) { return h.Handle.XfrmPolicyList(family) })
}

// XfrmStateList returns the IPsec security associations.
func (h *Handle) XfrmStateList(family int) ([]netlink.XfrmState, error) {
	return whole(func() ([]netlink.XfrmState, error) { return h.Handle.XfrmStateList(family) })
}
