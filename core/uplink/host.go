package uplink

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
)

// host holds the facts from which the selectors choose.
type host struct {
	facts    driver.HostFacts
	families []cidr.Family // of the network
	used     Uplink        // the one in use; zero: none
}

func (h host) link(name string) (driver.Link, bool) {
	i := slices.IndexFunc(h.facts.Links, func(l driver.Link) bool { return l.Name == name })
	if i < 0 {
		return driver.Link{}, false
	}
	return h.facts.Links[i], true
}

// owner returns the first link with an address.
func (h host) owner(a netip.Addr) (driver.Link, bool) {
	i := slices.IndexFunc(h.facts.Links, func(l driver.Link) bool { return owns(l, a) })
	if i < 0 {
		return driver.Link{}, false
	}
	return h.facts.Links[i], true
}

// links returns the link in use, and then all links by index.
func (h host) links() []driver.Link {
	used, ok := h.link(h.used.Link)
	if !ok {
		return h.facts.Links
	}
	return append([]driver.Link{used}, h.facts.Links...)
}

// defaultRoute returns the default route of the link in use, or else the one
// with the lowest metric.
func (h host) defaultRoute(f cidr.Family) (driver.Route, bool) {
	var defaults []driver.Route
	for _, r := range h.facts.Routes {
		if r.Dst.Bits() == 0 && len(r.Hops) > 0 {
			defaults = append(defaults, r)
		}
	}
	unspecified := cidr.Pick(f, netip.IPv4Unspecified(), netip.IPv6Unspecified())
	used := slices.DeleteFunc(slices.Clone(defaults), func(r driver.Route) bool { return r.Hops[0].Link != h.used.Link })
	if r, ok := lookup(used, unspecified); ok {
		return r, true
	}
	return lookup(defaults, unspecified)
}

// connected returns routes to the subnets of all addresses, for addresses that
// were added without a route. Their metric is worse than the kernel's routes have.
func (h host) connected() []driver.Route {
	var routes []driver.Route
	for _, l := range h.facts.Links {
		for _, a := range l.Addrs {
			routes = append(routes, driver.Route{
				Dst: a.Prefix.Masked(), Metric: math.MaxUint32,
				Hops: []driver.Hop{{Link: l.Name}}, Src: a.Prefix.Addr(),
			})
		}
	}
	return routes
}

// complete fills in the addresses that the selector left open and checks the link.
func (h host) complete(c *candidate) error {
	for _, f := range h.families {
		if !c.addrs[f].IsValid() {
			c.addrs[f] = h.best(c.link, f, func(netip.Prefix) bool { return true })
		}
		if !c.addrs[f].IsValid() {
			return fmt.Errorf("interface %s has no usable %v address", c.link.Name, f)
		}
	}
	for _, f := range cidr.Families {
		if !slices.Contains(h.families, f) {
			c.addrs[f] = netip.Addr{}
		}
	}
	if c.link.MTU <= 0 {
		return fmt.Errorf("interface %s has MTU %d", c.link.Name, c.link.MTU)
	}
	return nil
}

func (c candidate) has(families []cidr.Family) bool {
	return !slices.ContainsFunc(families, func(f cidr.Family) bool { return !c.addrs[f].IsValid() })
}

func owns(l driver.Link, a netip.Addr) bool {
	return slices.ContainsFunc(l.Addrs, func(la driver.LinkAddr) bool { return la.Prefix.Addr() == a })
}

// best returns the link's best accepted address of a family: the one in use, or
// else global before link-local, permanent before dynamic, stable before
// temporary, and among equals the first listed. It ignores deprecated addresses
// and those that cannot be on a wire. A link-local address in use is kept only while
// there is no global one, since peers refuse it.
func (h host) best(l driver.Link, f cidr.Family, accept func(netip.Prefix) bool) netip.Addr {
	var found netip.Addr
	most := -1
	for _, la := range l.Addrs {
		a := la.Prefix.Addr()
		usable := a.IsGlobalUnicast() || a.IsLinkLocalUnicast()
		if cidr.FamilyOf(a) != f || la.Deprecated || !usable || !accept(la.Prefix) {
			continue
		}
		if l.Name == h.used.Link && a == h.used.Addr(f) && a.IsGlobalUnicast() {
			return a
		}
		if rank := rank(la); rank > most {
			found, most = a, rank
		}
	}
	return found
}

func rank(a driver.LinkAddr) int {
	n := 0
	for _, good := range []bool{!a.LinkLocal, a.Permanent, !a.Temporary} {
		n *= 2
		if good {
			n++
		}
	}
	return n
}
