package kernel

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// Metrics the kernel gives to IPv6 routes by itself.
const (
	metricConnected6 = 256
	metricDefault6   = 1024
)

// route is an entry of the main table.
type route struct {
	dst    netip.Prefix
	metric uint32     // as the kernel has it
	hop               // zero for a blackhole
	paths  []hop      // of an IPv6 route with several, of which hop is the first that is awake
	src    netip.Addr // of a connected IPv4 route
	scope  dataplane.Scope
	proto  uint8
}

// hop is a way out.
type hop struct {
	link   *link
	via    netip.Addr // zero: the destination is a neighbour
	onlink bool       // via is a neighbour whatever the addresses say
	asleep bool       // one of several, whose link is down or without IPv6
	proto  uint8      // whose it is of several
}

// same reports whether two routes differ in nothing.
func (r *route) same(o *route) bool {
	return r.dst == o.dst && r.metric == o.metric && r.hop == o.hop && slices.Equal(r.paths, o.paths) &&
		r.src == o.src && r.scope == o.scope && r.proto == o.proto
}

// twin reports whether the kernel takes a new route of the same key for one
// that is there: with IPv6 whoever made them, if it is one of several paths.
func (r *route) twin(o *route) bool {
	if cidr.FamilyOf(r.dst.Addr()) == cidr.V6 {
		same := func(h hop) bool { return h.link == o.link && h.via == o.via }
		return same(r.hop) || slices.ContainsFunc(r.paths, same)
	}
	return r.same(o)
}

// hops are all ways out of the route, those asleep included.
func (r *route) hops() []hop {
	if len(r.paths) > 0 {
		return r.paths
	}
	only := r.hop
	only.proto = r.proto
	return []hop{only}
}

// leave takes the paths over a link from the route, and reports whether none
// is left.
func (r *route) leave(l *link) bool {
	rest := slices.DeleteFunc(slices.Clone(r.hops()), func(h hop) bool { return h.link == l })
	if len(rest) > 0 {
		r.take(rest)
	}
	return len(rest) == 0
}

// sleep puts the paths over a link to sleep, and reports whether none is
// awake: then the kernel removes the route. A route with a single one goes at
// once.
func (r *route) sleep(l *link) bool {
	paths := slices.Clone(r.paths)
	for i := range paths {
		paths[i].asleep = paths[i].asleep || paths[i].link == l
	}
	if !slices.ContainsFunc(paths, func(h hop) bool { return !h.asleep }) {
		return slices.ContainsFunc(r.hops(), func(h hop) bool { return h.link == l })
	}
	r.take(paths)
	return false
}

// wake ends the sleep of the paths over a link.
func (r *route) wake(l *link) {
	if !slices.ContainsFunc(r.hops(), func(h hop) bool { return h.asleep && h.link == l }) {
		return
	}
	hops := slices.Clone(r.hops())
	for i := range hops {
		hops[i].asleep = hops[i].asleep && hops[i].link != l
	}
	r.take(hops)
}

// take makes hops the route's, which then is whose the first of them is.
func (r *route) take(hops []hop) {
	r.proto = hops[0].proto
	r.hop, r.paths = hops[0], nil
	if awake := slices.IndexFunc(hops, func(h hop) bool { return !h.asleep }); awake > 0 {
		r.hop = hops[awake]
	}
	r.hop.proto = 0
	if len(hops) > 1 {
		r.paths = hops
	}
}

// fib is the main table of one family: longest prefix first, then lowest
// metric, then the order in which routes were added.
type fib struct {
	stack  *stack
	family cidr.Family
	lists  map[netip.Prefix][]*route
	plain  slots    // destinations with nothing but one plain route; see [plainRoute]
	ofLen  [129]int // how many destinations have that prefix length
}

func newFIB(s *stack, f cidr.Family) fib {
	return fib{stack: s, family: f, lists: map[netip.Prefix][]*route{}}
}

// add puts a route behind those of its metric. It refuses if there is one and
// the caller asked for the only one, or if the very route is there.
func (f *fib) add(r *route, only bool) error {
	list := f.at(r.dst)
	taken := func(o *route) bool { return o.metric == r.metric && (only || o.twin(r)) }
	if slices.ContainsFunc(list, taken) {
		return driver.ErrExists
	}
	at := 0
	for at < len(list) && list[at].metric <= r.metric {
		at++
	}
	f.set(r.dst, slices.Insert(list, at, r))
	return nil
}

// replace puts a route in the place of another of its metric, or adds it. With
// IPv4 that is the first, and the route leaves the place further behind where
// it may have stood. With IPv6 it is the first that is of its kind, with a
// gateway or without, and only in want of that the first.
func (f *fib) replace(r *route) error {
	if f.replacePlain(r) {
		return nil
	}
	list := f.at(r.dst)
	at := slices.IndexFunc(list, func(o *route) bool {
		return o.metric == r.metric && (f.family == cidr.V4 || o.via.IsValid() == r.via.IsValid())
	})
	if at < 0 {
		at = slices.IndexFunc(list, func(o *route) bool { return o.metric == r.metric })
	}
	if at < 0 {
		return f.add(r, true)
	}
	list[at] = r
	if f.family == cidr.V4 {
		list = slices.DeleteFunc(list, func(o *route) bool { return o != r && o.same(r) })
	}
	f.set(r.dst, list)
	return nil
}

// delete removes the very route given. The kernel finds it by less, and a
// driver that notices that it would find another refuses.
func (f *fib) delete(want dataplane.Route) error {
	list := f.at(want.Dst)
	at := slices.IndexFunc(list, func(r *route) bool { return r.value() == want })
	if at < 0 {
		return driver.ErrNotFound
	}
	for _, r := range list[:at] {
		if o := r.value(); mistaken(o, want) {
			return fmt.Errorf("the kernel would delete %q, which stands before it: %w", o, driver.ErrUnsupported)
		}
	}
	f.set(want.Dst, slices.Delete(list, at, at+1))
	return nil
}

// mistaken reports whether the kernel takes a route for another to the same
// destination that is to be deleted: it minds no onlink, with IPv4 it takes a
// missing gateway to mean any, and it is told of no hop if there are several.
func mistaken(o, want dataplane.Route) bool {
	switch {
	case o.RouteKey != want.RouteKey || o.Protocol != want.Protocol || o.Scope != want.Scope:
		return false
	case want.Other != "":
		return true
	case o.Other != "" || o.Kind != want.Kind || o.Link != want.Link:
		return false
	}
	return o.Via == want.Via || want.Dst.Addr().Is4() && !want.Via.IsValid()
}

// appendHop makes a route a further path of the first of its metric that can
// have several, as the kernel does for IPv6, and reports whether there is one.
func (f *fib) appendHop(r *route) bool {
	list := f.at(r.dst)
	for _, o := range list {
		if o.metric == r.metric && o.twin(r) {
			return false // to be refused
		}
	}
	for _, o := range list {
		if o.metric == r.metric && o.via.IsValid() && r.via.IsValid() {
			o.take(slices.Concat(o.hops(), r.hops()))
			f.set(r.dst, list)
			return true
		}
	}
	return false
}

// remove deletes the routes that match.
func (f *fib) remove(match func(*route) bool) {
	for _, dst := range slices.Collect(f.dsts) {
		f.removeAt(dst, match)
	}
}

// removeAt deletes the routes to one destination that match.
func (f *fib) removeAt(dst netip.Prefix, match func(*route) bool) {
	f.set(dst, slices.DeleteFunc(f.at(dst), match))
}

// lookup returns the route for a destination, or nil.
func (f *fib) lookup(dst netip.Addr) *route {
	for bits := f.family.Bits(); bits >= 0; bits-- {
		if list := f.covering(dst, bits); len(list) > 0 {
			return list[0]
		}
	}
	return nil
}

// covering lists the routes to the prefix of that length around an address.
func (f *fib) covering(a netip.Addr, bits int) []*route {
	if f.ofLen[bits] == 0 {
		return nil
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return nil
	}
	return f.at(p)
}

// bars reports whether a route to an IPv6 gateway keeps it from being on-link
// on a link: the default route does not.
func (r *route) bars(l *link) bool {
	return r != nil && r.link != nil && r.link != l && !r.dst.Addr().IsUnspecified()
}

// lookupVia is lookup for packets that shall leave over a link: of the routes
// that are equally good it takes the one that does.
func (f *fib) lookupVia(dst netip.Addr, via *link) *route {
	best := f.lookup(dst)
	if best == nil {
		return nil
	}
	for _, r := range f.at(best.dst) {
		if r.metric == best.metric && r.link == via {
			return r
		}
	}
	return best
}

// neighbourLink finds the link behind which a gateway is a neighbour, or nil.
// With a link given, only that one counts. IPv4 looks at routes of link scope
// alone, IPv6 takes the first that matches.
func (f *fib) neighbourLink(gateway netip.Addr, want *link) *link {
	for bits := f.family.Bits(); bits >= 0; bits-- {
		for _, r := range f.covering(gateway, bits) {
			switch {
			case want != nil && r.link != want:
			case f.family == cidr.V4 && r.scope != dataplane.ScopeLink:
			case f.family == cidr.V6 && r.via.IsValid():
				return nil
			default:
				return r.link
			}
		}
	}
	return nil
}

// list returns the routes to destinations that match as the kernel dumps them. IPv4: by
// address, at one address the longest first. IPv6: the tree from its leaves up,
// so the default route comes last.
func (f *fib) list(to iter.Seq[netip.Prefix], match func(*route) bool) []*route {
	order := func(a, b netip.Prefix) int {
		if f.family == cidr.V6 && a.Overlaps(b) {
			return cmp.Compare(b.Bits(), a.Bits())
		}
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return cmp.Compare(b.Bits(), a.Bits())
	}
	var dsts []netip.Prefix
	for dst := range to {
		if slices.ContainsFunc(f.at(dst), match) {
			dsts = append(dsts, dst)
		}
	}
	slices.SortFunc(dsts, order)
	var out []*route
	for _, dst := range dsts {
		for _, r := range f.at(dst) {
			if match(r) {
				out = append(out, r)
			}
		}
	}
	return out
}
