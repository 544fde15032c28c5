package uplink

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// mtu returns the MTU of the way to the peers through a link with these addresses, and for each family the bound that
// the default route sets (0: none).
//
// It is one for all peers, and a peer's record must not change it, so the routes to single peers do not count.
// Three things do: the link's own MTU, unless it is a loopback device, which holds the address of a host whose
// routing daemon announces it; for a single address without an on-link network, the links of the default route;
// and the MTU that the default route has of its own, if it leaves by the link. While there is no
// default route, its last bound stays.
func (h host) mtu(l driver.Link, addrs [2]netip.Addr) (mtu int, bounds [2]int) {
	if !l.Loopback {
		mtu = l.MTU
	}
	for _, f := range h.families {
		bounds[f] = h.bound(l, f, isSingle(l, addrs[f]))
		if bounds[f] > 0 && (mtu == 0 || bounds[f] < mtu) {
			mtu = bounds[f]
		}
	}
	if mtu == 0 {
		mtu = h.narrowest(l)
	}
	return mtu, bounds
}

// isSingle reports whether a link's address has no on-link network: it is a /32 or a /128.
func isSingle(l driver.Link, a netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(la driver.LinkAddr) bool {
		return la.Prefix.Addr() == a && la.Prefix.IsSingleIP()
	})
}

// bound returns the bound that the default route of a family sets to the MTU, or 0.
func (h host) bound(l driver.Link, f cidr.Family, single bool) int {
	route, ok := h.defaultRoute(f)
	if !ok {
		if h.used.Link == l.Name {
			return h.used.RouteMTU[f]
		}
		return 0
	}
	least := 0
	for _, hop := range route.Hops {
		out, ok := h.link(hop.Link)
		if !ok || out.MTU <= 0 || h.barred(out) != "" {
			continue
		}
		mtu := out.MTU
		if route.MTU > 0 {
			mtu = min(mtu, route.MTU)
		}
		leaves := out.Name == l.Name && route.MTU > 0
		if (single || l.Loopback || leaves) && (least == 0 || mtu < least) {
			least = mtu
		}
	}
	return least
}

// narrowest returns the smallest MTU of the links by which a host without a default route may reach others, or the
// link's own.
func (h host) narrowest(l driver.Link) int {
	least := 0
	for _, o := range h.facts.Links {
		leads := o.Up && !o.Loopback && !o.Inside && o.MTU > 0 && h.barred(o) == ""
		if leads && (least == 0 || o.MTU < least) {
			least = o.MTU
		}
	}
	if least == 0 {
		return l.MTU
	}
	return least
}
