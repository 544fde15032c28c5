package uplink

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/driver"
)

// host holds the facts from which the selectors choose.
type host struct {
	facts    driver.HostFacts
	own      Own
	network  config.Network
	families []cidr.Family // of the network
	used     Uplink        // the one in use; zero: none

	public    [2]netip.Addr // given by flags; invalid if absent
	selectors []selector    // to try, in order
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
// with the lowest metric. Routes that lead only to links of the overlay do not count.
func (h host) defaultRoute(f cidr.Family) (driver.Route, bool) {
	var defaults, used []driver.Route
	for _, r := range h.defaults(f) {
		names := h.leavesBy(r, f)
		if len(names) > 0 {
			defaults = append(defaults, r)
		}
		if slices.Contains(names, h.used.Link) {
			used = append(used, r)
		}
	}
	unspecified := cidr.Pick(f, netip.IPv4Unspecified(), netip.IPv6Unspecified())
	if r, ok := lookup(used, unspecified); ok {
		return r, true
	}
	return lookup(defaults, unspecified)
}

// defaults returns all default routes of a family.
func (h host) defaults(f cidr.Family) []driver.Route {
	return slices.DeleteFunc(slices.Clone(h.facts.Routes), func(r driver.Route) bool {
		return r.Dst.Bits() != 0 || len(r.Hops) == 0 || cidr.FamilyOf(r.Dst.Addr()) != f
	})
}

// leavesBy returns the links of a route's hops, the one in use first, without those that cannot be the
// uplink. An unknown link stays.
func (h host) leavesBy(r driver.Route, f cidr.Family) []string {
	var names []string
	for _, hop := range r.Hops {
		if l, ok := h.link(hop.Link); ok && h.refuseHop(l, f) != nil {
			continue
		}
		if hop.Link == h.used.Link {
			names = slices.Insert(names, 0, hop.Link)
		} else {
			names = append(names, hop.Link)
		}
	}
	return names
}

// refuseHop returns why a default route through a link does not count, or nil.
func (h host) refuseHop(l driver.Link, f cidr.Family) error {
	if err := h.refuse(l); err != nil {
		return err
	}
	if h.best(l, f, anyPrefix).IsValid() {
		return nil
	}
	return h.noAddress(l, f)
}

// noAddress returns an error about a link without an address that it can use.
func (h host) noAddress(l driver.Link, f cidr.Family) error {
	err := fmt.Errorf("interface %s has no usable %v address", l.Name, f)
	if why := h.barredOf(l, f); why != "" {
		return fmt.Errorf("%w: %s", err, why)
	}
	return err
}

func anyPrefix(netip.Prefix) bool { return true }

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
	if err := h.refuse(c.link); err != nil {
		return err
	}
	for _, f := range h.families {
		if !c.addrs[f].IsValid() {
			c.addrs[f] = h.best(c.link, f, anyPrefix)
		}
		if !c.addrs[f].IsValid() {
			return h.noAddress(c.link, f)
		}
		if i := slices.IndexFunc(c.link.Addrs, has(c.addrs[f])); i >= 0 {
			if why := h.barredAddr(c.link, c.link.Addrs[i]); why != "" {
				return errors.New(why)
			}
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

func owns(l driver.Link, a netip.Addr) bool { return slices.ContainsFunc(l.Addrs, has(a)) }

func has(a netip.Addr) func(driver.LinkAddr) bool {
	return func(la driver.LinkAddr) bool { return la.Prefix.Addr() == a }
}

// best returns the link's best accepted address of a family: the one in use, or
// else global before link-local, permanent before dynamic, stable before
// temporary, and among equals the first listed. It ignores deprecated addresses,
// barred ones and those that cannot be on a wire. A link-local address in use is kept only while
// there is no global one, since peers refuse it.
func (h host) best(l driver.Link, f cidr.Family, accept func(netip.Prefix) bool) netip.Addr {
	var found netip.Addr
	most := -1
	for _, la := range l.Addrs {
		a := la.Prefix.Addr()
		usable := a.IsGlobalUnicast() || a.IsLinkLocalUnicast()
		if cidr.FamilyOf(a) != f || la.Deprecated || !usable || !accept(la.Prefix) || h.barredAddr(l, la) != "" {
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
