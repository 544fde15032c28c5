package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// applier performs the ops of one Apply. Runs of neighbours, FDB entries and
// routes are gathered into batches; every other op is performed at once,
// behind the batch before it.
type applier struct {
	d     *Driver
	links *links
	ops   []dataplane.Op
	errs  []error

	batch []int  // indices of the ops in the batch being written
	first uint32 // number of the batch's first message

	// there holds the existing routes. A delete that needs them reads them; an
	// op that may change them drops them.
	there [2]*routeList

	// wgPeers holds the peers of WireGuard devices in the kernel, by the link's index,
	// once an op needs them.
	wgPeers map[int]*wgTable
}

// Apply implements [driver.Lane].
func (d *Driver) Apply(ctx context.Context, ops []dataplane.Op) []error {
	d.forgetRoutes(ops)
	d.changes(ops)
	defer d.hints.settle()
	a := &applier{d: d, links: newLinks(d.query, d.wg), ops: ops, errs: make([]error, len(ops))}
	for i, op := range ops {
		if err := ctx.Err(); err != nil {
			a.errs[i] = nl.Failed(op, err)
			continue
		}
		if err := a.one(i, op); err != nil {
			a.errs[i] = nl.Failed(op, err)
		}
	}
	a.flush()
	return a.errs
}

// one performs an op, or adds it to the batch.
func (a *applier) one(i int, op dataplane.Op) error {
	switch o := op.Object.(type) {
	case dataplane.Neigh:
		return a.neigh(i, op.Verb, o)
	case dataplane.FDBEntry:
		return a.fdb(i, op.Verb, o)
	case dataplane.NextHop:
		return a.nextHop(i, op.Verb, o)
	case dataplane.Route:
		return a.route(i, op.Verb, o)
	}
	a.flush()
	switch o := op.Object.(type) {
	case dataplane.Peer:
		return a.d.proxies.applyPeer(op.Verb, o)
	case dataplane.WGPeer:
		return a.wgPeer(op.Verb, o)
	}
	a.there = [2]*routeList{} // a link or an address takes its routes along
	switch o := op.Object.(type) {
	case dataplane.Link:
		return a.link(op.Verb, o)
	case dataplane.Addr:
		return a.links.applyAddr(op.Verb, o)
	case dataplane.Sysctl:
		return a.d.ns.Do(func() error { return writeSysctl(op.Verb, o) })
	case dataplane.Proxy:
		return a.proxy(op.Verb, o)
	case dataplane.Policy:
		return a.d.applyPolicy(op.Verb, o)
	}
	return fmt.Errorf("object of type %T: %w", op.Object, driver.ErrUnsupported)
}

func (a *applier) neigh(i int, verb dataplane.Verb, n dataplane.Neigh) error {
	l, err := a.links.named(n.Link)
	if err != nil {
		return err
	}
	kind, flags := verbFlags(verb, unix.RTM_NEWNEIGH)
	if verb == dataplane.Delete {
		a.expect(entryKey{nl.AF(cidr.FamilyOf(n.IP)), l.index, string(n.IP.AsSlice())}, netip.Addr{})
	}
	a.add(i)
	putNeigh(a.d.bulk, kind, flags, n, l.index)
	return nil
}

func (a *applier) fdb(i int, verb dataplane.Verb, f dataplane.FDBEntry) error {
	l, err := a.links.named(f.Link)
	if err != nil {
		return err
	}
	kind, flags := verbFlags(verb, unix.RTM_NEWNEIGH)
	dst := f.Dst
	if verb == dataplane.Delete {
		dst = netip.Addr{}
	}
	a.expect(entryKey{unix.AF_BRIDGE, l.index, string(f.MAC[:])}, dst)
	a.add(i)
	putFDB(a.d.bulk, kind, flags, f, l.index)
	return nil
}

// expect announces an entry to the hints, if there are few ops: see [ownEntries].
func (a *applier) expect(k entryKey, dst netip.Addr) {
	if len(a.ops) <= fewAgain {
		a.d.hints.expect(k, dst)
	}
}

func (a *applier) nextHop(i int, verb dataplane.Verb, h dataplane.NextHop) error {
	index := 0
	if verb != dataplane.Delete {
		if h.Other != "" || !h.Via.Is4() || h.ID == 0 {
			return fmt.Errorf("this driver makes next hops with an IPv4 gateway: %w", driver.ErrUnsupported)
		}
		l, err := a.links.named(h.Link)
		if err != nil {
			return err
		}
		index = l.index
	}
	a.there[cidr.V4] = nil // the routes that use it change or go
	kind, flags := verbFlags(verb, unix.RTM_NEWNEXTHOP)
	a.add(i)
	putNextHop(a.d.bulk, kind, flags, h, index)
	return nil
}

func (a *applier) route(i int, verb dataplane.Verb, r dataplane.Route) error {
	oif, err := a.outLink(r)
	if err != nil {
		return err
	}
	switch {
	case verb == dataplane.Delete:
		if err := a.mustBeThere(r); err != nil {
			return err
		}
	case r.Other != "":
		return fmt.Errorf("this driver makes no route of form %s: %w", r.Other, driver.ErrUnsupported)
	case r.Via.IsValid() && cidr.FamilyOf(r.Via) != cidr.FamilyOf(r.Dst.Addr()):
		// The kernel would take the first four bytes of an IPv6 gateway for an IPv4 one.
		return fmt.Errorf("gateway %s of the other family: %w", r.Via, driver.ErrInvalid)
	case r.Kind == dataplane.Blackhole && (r.Link != "" || r.Via.IsValid() || r.OnLink):
		return fmt.Errorf("a blackhole leads nowhere: %w", driver.ErrInvalid) // IPv6 would ignore it
	}
	kind, flags := verbFlags(verb, unix.RTM_NEWROUTE)
	if verb != dataplane.Delete {
		a.there[cidr.FamilyOf(r.Dst.Addr())] = nil
	}
	a.add(i)
	putRoute(a.d.bulk, kind, flags, r, oif)
	return nil
}

// outLink returns the index of a route's link, 0 to let the kernel choose it.
func (a *applier) outLink(r dataplane.Route) (int, error) {
	if r.Link == "" || r.Other != "" || r.NextHop != 0 {
		return 0, nil
	}
	l, err := a.links.named(r.Link)
	return l.index, err
}

// add makes room for the message of an op, which the caller writes next.
func (a *applier) add(i int) {
	if len(a.batch) == a.d.bulk.Batch() {
		a.flush()
	}
	if len(a.batch) == 0 {
		a.first = a.d.bulk.Seq() + 1
	}
	a.batch = append(a.batch, i)
}

// flush sends the batch and notes what the kernel refused.
func (a *applier) flush() {
	if len(a.batch) == 0 {
		return
	}
	batch := a.batch
	again := map[dataplane.RouteKey]bool{}
	err := a.d.bulk.Exchange(a.first, func(k int, err error) {
		i := batch[k]
		if a.hiddenTwin(a.ops[i], err) {
			again[a.ops[i].Object.(dataplane.Route).RouteKey] = true
		}
		a.errs[i] = nl.Failed(a.ops[i], err)
	})
	if err != nil { // an op without a refusal may or may not have been done
		err = fmt.Errorf("the kernel's answer was lost: %w", err)
		for _, i := range batch {
			if a.errs[i] == nil {
				a.errs[i] = nl.Failed(a.ops[i], err)
			}
		}
	}
	a.batch = a.batch[:0]
	if len(again) == 0 {
		return
	}
	// The replacement deletes the key's routes, so every later replace of the
	// key is repeated too.
	for _, i := range batch {
		r, isRoute := a.ops[i].Object.(dataplane.Route)
		if isRoute && again[r.RouteKey] && a.ops[i].Verb == dataplane.Replace {
			a.errs[i] = nl.Failed(a.ops[i], a.replace(r))
		}
	}
}

// hiddenTwin reports whether a replace was refused for the one reason that has
// a remedy: IPv4 tries to replace the first route of a key and finds the wanted
// one behind it.
func (a *applier) hiddenTwin(op dataplane.Op, err error) bool {
	_, isRoute := op.Object.(dataplane.Route)
	return isRoute && op.Verb == dataplane.Replace && errors.Is(err, unix.EEXIST)
}

// replace replaces one route. A twin that another route hides carries no
// packet, so replace deletes it first.
func (a *applier) replace(r dataplane.Route) error {
	err := a.single(dataplane.Replace, r)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := a.single(dataplane.Delete, r); err != nil {
		return err
	}
	return a.single(dataplane.Replace, r)
}

// single performs one op on a route, outside any batch.
func (a *applier) single(verb dataplane.Verb, r dataplane.Route) error {
	oif, err := a.outLink(r)
	if err != nil {
		return err
	}
	kind, flags := verbFlags(verb, unix.RTM_NEWROUTE)
	putRoute(a.d.query, kind, flags, r, oif)
	_, err = a.d.query.Do()
	return err
}
