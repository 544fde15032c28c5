package reconcile

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// routeChange is a wanted route and the one with its key, nil if there is none.
type routeChange struct{ want, have *dataplane.Route }

func (d *differ) routes() {
	have := surviving(d, &d.have.Routes, func(r dataplane.Route) bool { return d.flushed[r.Link].all })
	var puts []routeChange
	covers, foreign := covers{}, false
	d.want.Routes.Differences(have, func(want, have *dataplane.Route) {
		switch {
		case want != nil:
			puts = append(puts, routeChange{want, have})
		case d.opts.Own.Route(*have):
			covers.add(*have)
			d.remove(*have, have.Link)
			if d.goes(have.Link) {
				d.along = append(d.along, *have)
			}
		default:
			foreign = foreign || mayWin(have)
		}
	})
	d.putRoutes(puts, covers)
	if !foreign {
		return
	}
	d.want.Routes.Each(func(want *dataplane.Route) {
		d.noteWinner(want, have)
	})
}

// putRoutes puts routes in place; those that need another route deleted first come last.
func (d *differ) putRoutes(puts []routeChange, covers covers) {
	var blocked []routeChange
	var cover []dataplane.Route
	for _, c := range puts {
		over := covers.over(c.want)
		switch {
		case len(over) == 0:
			d.putRoute(c.want, c.have)
			continue
		case !d.opts.Prune:
			continue // the one in the way has to stay
		}
		blocked = append(blocked, c)
		for _, r := range over {
			if !slices.Contains(cover, r) {
				cover = append(cover, r)
			}
		}
	}
	for _, r := range cover {
		d.drop = slices.DeleteFunc(d.drop, func(op dataplane.Op) bool { return op.Object == dataplane.Object(r) })
		d.add(dataplane.Delete, r)
	}
	for _, c := range blocked {
		d.putRoute(c.want, c.have)
	}
}

// covers holds the IPv6 routes that go, by destination.
type covers map[netip.Prefix][]dataplane.Route

func (c covers) add(r dataplane.Route) {
	if !r.Dst.Addr().Is4() {
		c[r.Dst] = append(c[r.Dst], r)
	}
}

// over returns the routes that cover the gateway of a wanted route and lead to another
// link: see [mustMakeWay].
func (c covers) over(want *dataplane.Route) []dataplane.Route {
	if len(c) == 0 || !want.OnLink || want.Dst.Addr().Is4() {
		return nil
	}
	var found []dataplane.Route
	for bits := range want.Via.BitLen() + 1 {
		p, err := want.Via.Prefix(bits)
		if err != nil {
			continue
		}
		for _, r := range c[p] {
			if mustMakeWay(want, &r) && r.RouteKey != want.RouteKey {
				found = append(found, r)
			}
		}
	}
	return found
}

// mayWin reports whether a foreign route may take precedence over a wanted one: see noteWinner.
func mayWin(foreign *dataplane.Route) bool { return foreign.Metric == 0 && foreign.Dst.Addr().Is4() }

// noteWinner notes a foreign IPv4 route without a metric that takes precedence over a
// wanted one. It stays, since an upstream daemon may need it. A blackhole is meant to
// yield.
func (d *differ) noteWinner(want *dataplane.Route, have *dataplane.Table[dataplane.RouteKey, dataplane.Route]) {
	if want.Metric == 0 || want.Kind == dataplane.Blackhole || !want.Dst.Addr().Is4() {
		return
	}
	wins := dataplane.RouteKey{Dst: want.Dst}
	foreign, exists := have.Get(wins)
	if exists && !d.want.Routes.Has(wins) && !d.opts.Own.Route(foreign) {
		d.conflicts = append(d.conflicts, Conflict{*want, foreign})
	}
}

// putRoute replaces the route with the same key; it is nil if there is none. Then
// putRoute only creates: the kernel may have made a route of its own under that key
// since the look, and would not make it again.
func (d *differ) putRoute(want, have *dataplane.Route) {
	switch {
	case have == nil:
		d.add(dataplane.Create, *want)
		return
	case have.Protocol == dataplane.ProtocolKernel:
		d.conflicts = append(d.conflicts, Conflict{*want, *have})
		return
	case mustMakeWay(want, have):
		d.add(dataplane.Delete, *have)
	}
	d.add(dataplane.Replace, *want)
}

// keepUnderWider puts off the delete of a route while a wider one of another link goes with its link, at the end of
// the plan: meanwhile that one would get the packets. Later plans delete the route.
func (d *differ) keepUnderWider() {
	wider := map[netip.Prefix]string{}
	lengths := map[int]bool{}
	for _, r := range d.along {
		wider[r.Dst], lengths[r.Dst.Bits()] = r.Link, true
	}
	d.drop = slices.DeleteFunc(d.drop, func(op dataplane.Op) bool {
		r, ok := op.Object.(dataplane.Route)
		if !ok {
			return false
		}
		for bits := range lengths {
			around, err := r.Dst.Addr().Prefix(bits)
			link, goes := wider[around]
			if goes && err == nil && bits < r.Dst.Bits() && link != r.Link {
				return true
			}
		}
		return false
	})
}

// mustMakeWay reports whether the wanted route can only be added once the one in
// place is deleted. Linux refuses an IPv6 onlink gateway that another link's
// route covers (net/ipv6/route.c, ip6_route_check_nh_onlink), and the peer's old
// route covers the peer's gateway. So does a route for the whole network.
func mustMakeWay(want, have *dataplane.Route) bool {
	return want.OnLink && !want.Dst.Addr().Is4() && have.Link != want.Link
}

// keepFormerWays puts off the delete of a route while the plan has yet to put a route into its
// destination, and that of its next hop. The new one may fail, and then packets still need the
// former one. Later plans put nothing there, and delete it. A route that fails for good keeps only
// a former one that leads to the same destination.
func (d *differ) keepFormerWays() {
	former := map[netip.Prefix]bool{} // whether the plan puts a route into this destination
	lengths := map[int]bool{}
	for _, op := range d.drop {
		if r, ok := op.Object.(dataplane.Route); ok {
			former[r.Dst], lengths[r.Dst.Bits()] = false, true
		}
	}
	for _, op := range d.ops {
		r, ok := op.Object.(dataplane.Route)
		if !ok || op.Verb == dataplane.Delete {
			continue
		}
		for bits := range lengths {
			around, err := r.Dst.Addr().Prefix(bits) // an IPv4 address has no longer one than 32
			if _, goes := former[around]; goes && err == nil && bits <= r.Dst.Bits() {
				former[around] = true
			}
		}
	}
	hops := map[dataplane.NextHopID]bool{}
	d.drop = slices.DeleteFunc(d.drop, func(op dataplane.Op) bool {
		r, ok := op.Object.(dataplane.Route)
		if !ok || !former[r.Dst] {
			return false
		}
		hops[r.NextHop] = true // 0: it has none
		return true
	})
	d.drop = slices.DeleteFunc(d.drop, func(op dataplane.Op) bool {
		h, ok := op.Object.(dataplane.NextHop)
		return ok && hops[h.ID]
	})
}
