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

// Metrics that the kernel gives to IPv6 routes by itself.
const (
	metricConnected6 = 256
	metricDefault6   = 1024
)

// route is an entry of the main table.
type route struct {
	dst     netip.Prefix
	metric  uint32              // as the kernel stores it
	nextHop dataplane.NextHopID // the object that has the hop; 0: the route has one of its own
	hop                         // zero for a blackhole
	paths   []hop               // of a multipath IPv6 route; hop is the first that is awake
	src     netip.Addr          // of a connected IPv4 route
	scope   dataplane.Scope
	proto   uint8
}

// hop is a next hop.
type hop struct {
	link   *link
	via    netip.Addr // zero: the destination is a neighbour
	onlink bool       // via is a neighbour whatever the addresses say
	asleep bool       // one of several, whose link is down or without IPv6
	proto  uint8      // of this hop, if there are several
}

// same reports whether two routes are equal in every field.
func (r *route) same(o *route) bool {
	return r.dst == o.dst && r.metric == o.metric && r.nextHop == o.nextHop &&
		r.hop == o.hop && slices.Equal(r.paths, o.paths) &&
		r.src == o.src && r.scope == o.scope && r.proto == o.proto
}

// twin reports whether the kernel considers a new route with the same key a
// duplicate. For IPv6 that is a route with the same next hop, whatever its
// protocol, also if the hop is one of several.
func (r *route) twin(o *route) bool {
	if cidr.FamilyOf(r.dst.Addr()) == cidr.V6 {
		same := func(h hop) bool { return h.link == o.link && h.via == o.via }
		return same(r.hop) || slices.ContainsFunc(r.paths, same)
	}
	return r.same(o)
}

// hops returns all next hops of the route, including those asleep.
func (r *route) hops() []hop {
	if len(r.paths) > 0 {
		return r.paths
	}
	only := r.hop
	only.proto = r.proto
	return []hop{only}
}

// leave removes the paths over a link from the route, and reports whether none
// is left.
func (r *route) leave(l *link) bool {
	rest := slices.DeleteFunc(slices.Clone(r.hops()), func(h hop) bool { return h.link == l })
	if len(rest) > 0 {
		r.take(rest)
	}
	return len(rest) == 0
}

// sleep puts the paths over a link to sleep, and reports whether none is awake:
// then the kernel removes the route. A route with one hop goes at once.
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

// take gives the route these hops; the route takes the first hop's protocol.
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
	plain  slots    // destinations with one compact route only; see [compactRoute]
	ofLen  [129]int // number of destinations by prefix length
}

func newFIB(s *stack, f cidr.Family) fib {
	return fib{stack: s, family: f, lists: map[netip.Prefix][]*route{}}
}

// add puts a route behind those with its metric. It refuses a second route
// where the caller asked for an exclusive one, and an identical route.
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

// replace puts a route in the place of another with its metric, or adds it.
// With IPv4 it replaces the first, and an identical route further behind goes.
// With IPv6 it replaces the first of the same form, with a gateway or without,
// and otherwise the first.
func (f *fib) replace(r *route) error {
	if f.replaceCompact(r) {
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

// delete removes exactly the route given. The kernel compares fewer fields, and
// the driver refuses where the kernel would delete another route.
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

// mistaken reports whether the kernel would delete this route in place of the
// one meant: it ignores onlink; with IPv4 a missing gateway matches any; and
// the request names no hop if there are several.
func mistaken(o, want dataplane.Route) bool {
	switch {
	case o.RouteKey != want.RouteKey || o.Protocol != want.Protocol || o.Scope != want.Scope:
		return false
	case want.Other != "":
		return true
	case o.NextHop != want.NextHop:
		return false
	case o.NextHop != 0:
		return o.Kind == want.Kind
	case o.Other != "" || o.Kind != want.Kind || o.Link != want.Link:
		return false
	}
	return o.Via == want.Via || want.Dst.Addr().Is4() && !want.Via.IsValid()
}

// appendHop adds a route as a further path to the first with its metric that
// can have several, as the kernel does for IPv6, and reports whether there is
// one.
func (f *fib) appendHop(r *route) bool {
	list := f.at(r.dst)
	for _, o := range list {
		if o.metric == r.metric && o.twin(r) {
			return false // the caller refuses it
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

// covering returns the routes to the prefix of that length around an address.
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

// bars reports whether this route keeps an IPv6 gateway from being on-link on a
// link: the default route does not.
func (r *route) bars(l *link) bool {
	return r != nil && r.link != nil && r.link != l && !r.dst.Addr().IsUnspecified()
}

// lookupVia is lookup for packets that must leave over a link: of equally good
// routes it takes the one over that link.
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
// With a link given, only that one counts. IPv4 considers routes of link scope
// alone, IPv6 takes the first that matches.
func (f *fib) neighbourLink(gateway netip.Addr, want *link) *link {
	for bits := f.family.Bits(); bits >= 0; bits-- {
		for _, r := range f.covering(gateway, bits) {
			if want != nil && r.link != want || f.family == cidr.V4 && r.scope != dataplane.ScopeLink {
				continue
			}
			if f.family == cidr.V6 && r.via.IsValid() {
				return nil
			}
			return r.link
		}
	}
	return nil
}

// list returns the routes to destinations that match, in the order of a kernel
// dump. IPv4: by address, at one address the longest first. IPv6: the tree from
// its leaves up, so the default route comes last.
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
