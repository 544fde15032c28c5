package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/shellword"
)

// Bypass is a foreign route that takes packets to peers from a wanted route, because it
// is more specific or has a lower metric.
type Bypass struct {
	Foreign dataplane.Route
	Want    dataplane.Route // the wanted route
	Subnets []netip.Prefix  // of the peers
	// Clear means that the wanted route leads to a device that encrypts, and that the
	// packets leave the host without encryption.
	Clear bool
	// Inside means that the foreign route leads to a device of this host that packets do not
	// leave it by, such as the bridge of another network's pods.
	Inside bool
}

// Guarded is a desired state that resists foreign routes.
type Guarded struct {
	State  *dataplane.State // the same as before, if no route had to be added
	Beaten []Bypass         // the foreign routes that take packets
	Held   []Bypass         // the ones that would, without the added routes
	// Shared are routes of another daemon of flannel on devices of this one.
	Shared []dataplane.Route
	// SharedAddrs are addresses on devices of this one that have the form of another daemon's: that of one host, and in
	// none of our networks. A daemon without peers has no routes.
	SharedAddrs []dataplane.Addr
}

// Guard finds the foreign routes that take packets to peers from wanted routes. Where a
// wanted route leads to a device that encrypts, Guard adds routes that are more specific
// than the foreign one: two halves of its destination, or the peer's subnet if that is
// narrower. So packets stay encrypted and the foreign route stays in place. Nothing can
// beat a foreign route to a single address, and a route to the host's own segment must not
// be beaten: that could cut the host off. Nor is one to pods of this host: nothing leaves
// in the clear, and another network would lose its packets.
//
// Peers returns the peers' subnets that overlap a destination. Inside reports whether packets
// that leave by a link stay on this host, unless they are for a gateway.
func Guard(want, have *dataplane.State, own Ownership,
	peers func(netip.Prefix) []netip.Prefix, inside func(link string) bool) Guarded {
	g := guard{want: want, foreign: map[netip.Prefix][]dataplane.Route{}, inside: inside}
	var order []dataplane.Route
	result := Guarded{State: want}
	have.Routes.Differences(&want.Routes, func(r, wanted *dataplane.Route) {
		if wanted != nil || own.Route(*r) {
			return
		}
		if own.Links[r.Link] {
			if ofFlannel(*r) {
				result.Shared = append(result.Shared, *r)
			}
			return
		}
		g.foreign[r.Dst] = append(g.foreign[r.Dst], *r)
		order = append(order, *r)
	})
	result.SharedAddrs = sharedAddrs(want, have, own)
	for _, foreign := range order {
		var beaten, held Bypass
		for _, subnet := range peers(foreign.Dst) {
			way, ok := g.wayTo(subnet)
			if !ok || !beats(foreign, way) {
				continue
			}
			target := &beaten
			leaves := g.encrypts(way) && !drops(foreign) && !g.stays(foreign)
			if leaves {
				areas, whole := g.resist(narrower(foreign.Dst, subnet), way)
				result.add(want, way, areas)
				if whole {
					target = &held
				}
			}
			target.Foreign, target.Want = foreign, way
			target.Clear, target.Inside = leaves, g.stays(foreign)
			target.Subnets = append(target.Subnets, subnet)
		}
		if len(beaten.Subnets) > 0 {
			result.Beaten = append(result.Beaten, beaten)
		}
		if len(held.Subnets) > 0 {
			result.Held = append(result.Held, held)
		}
	}
	return result
}

// sharedAddrs returns the addresses on our devices that have the form of another daemon's, in order.
func sharedAddrs(want, have *dataplane.State, own Ownership) []dataplane.Addr {
	var found []dataplane.Addr
	for key, a := range have.Addrs {
		_, wanted := want.Addrs[key]
		if !wanted && own.Links[a.Link] && a.Prefix.IsSingleIP() && !own.on(a.Link, a.Prefix) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b dataplane.Addr) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), a.Prefix.Addr().Compare(b.Prefix.Addr()))
	})
	return found
}

// ofFlannel reports whether a route on a device of flannel has the form of a daemon's: ours or upstream's.
func ofFlannel(r dataplane.Route) bool {
	return r.Protocol == dataplane.Protocol || r.Protocol == dataplane.ProtocolBoot && r.OnLink
}

// add adds routes to areas by the same way.
func (g *Guarded) add(want *dataplane.State, way dataplane.Route, areas []netip.Prefix) {
	for _, area := range areas {
		if g.State == want {
			g.State = want.Clone()
		}
		way.Dst = area
		g.State.AddRoute(way)
	}
}

type guard struct {
	want    *dataplane.State
	foreign map[netip.Prefix][]dataplane.Route // by destination
	inside  func(link string) bool
}

// stays reports whether packets that take a route stay on this host. Those that a route
// encapsulates go where their new header says, whatever its link.
func (g *guard) stays(r dataplane.Route) bool {
	return !r.Via.IsValid() && r.Link != "" && r.Other == "" && g.inside(r.Link)
}

// wayTo returns the wanted route that leads to a peer's subnet.
func (g *guard) wayTo(subnet netip.Prefix) (dataplane.Route, bool) {
	for bits := subnet.Bits(); bits > 0; bits-- {
		dst := netip.PrefixFrom(subnet.Addr(), bits).Masked()
		for _, metric := range [...]uint32{0, 1} { // udp's has metric 1
			r, ok := g.want.Routes.Get(dataplane.RouteKey{Dst: dst, Metric: metric})
			if ok && r.Kind == dataplane.Unicast {
				return r, true
			}
		}
	}
	return dataplane.Route{}, false
}

// encrypts reports whether a route leads to a device that encrypts.
func (g *guard) encrypts(r dataplane.Route) bool {
	_, is := g.want.Links[r.Link].Params.(dataplane.WireGuard)
	return is
}

// resist is [guard.cover] for an area that no segment of the host covers. To lead the
// area away from such a segment could cut the host off from its neighbours, although
// the kernel's route is wider than the area.
func (g *guard) resist(area netip.Prefix, way dataplane.Route) (areas []netip.Prefix, whole bool) {
	onSegment := func(r dataplane.Route) bool { return ofSegment(r) && beats(r, way) }
	for bits := area.Bits(); bits >= way.Dst.Bits(); bits-- {
		if slices.ContainsFunc(g.foreign[netip.PrefixFrom(area.Addr(), bits).Masked()], onSegment) {
			return nil, false
		}
	}
	return g.cover(area)
}

// cover returns destinations of routes that take precedence over every foreign route to
// an area, and whether they cover all of it.
func (g *guard) cover(area netip.Prefix) (areas []netip.Prefix, whole bool) {
	for _, r := range g.foreign[area] {
		switch {
		case drops(r), g.stays(r):
			return nil, true
		case ofSegment(r):
			return nil, false
		}
	}
	ours := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: area}}
	inTheWay := func(r dataplane.Route) bool { return metricOf(r) <= metricOf(ours) }
	if !slices.ContainsFunc(g.foreign[area], inTheWay) {
		return []netip.Prefix{area}, true
	}
	if area.IsSingleIP() {
		return nil, false
	}
	whole = true
	for n := range uint64(2) {
		part, covered := g.cover(cidr.Subnet(area.Addr(), cidr.From64(n), area.Bits()+1))
		areas = append(areas, part...)
		whole = whole && covered
	}
	return areas, whole
}

// ofSegment reports whether a route leads to a segment that the host is on: the kernel made it
// for an address, or a program for the prefix that a router announces (IPv6, RFC 4861 6.3.4).
func ofSegment(r dataplane.Route) bool {
	return r.Protocol == dataplane.ProtocolKernel || r.Protocol == dataplane.ProtocolRA && !r.Via.IsValid()
}

// beats reports whether the kernel prefers a foreign route to a wanted one. [Conflict]
// tells of IPv4 routes with the same destination.
func beats(foreign, want dataplane.Route) bool {
	if foreign.Dst.Bits() != want.Dst.Bits() {
		return foreign.Dst.Bits() > want.Dst.Bits()
	}
	return !want.Dst.Addr().Is4() && metricOf(foreign) < metricOf(want)
}

// metricOf returns the metric by which the kernel orders routes. An IPv6 route without
// one has 1024.
func metricOf(r dataplane.Route) uint32 {
	if r.Metric == 0 && !r.Dst.Addr().Is4() {
		return 1024
	}
	return r.Metric
}

// drops reports whether the kernel drops packets that take a route.
func drops(r dataplane.Route) bool {
	return r.Kind == dataplane.Blackhole || slices.Contains([]string{"unreachable", "prohibit", "throw"}, r.Other)
}

func narrower(a, b netip.Prefix) netip.Prefix {
	if a.Bits() > b.Bits() {
		return a
	}
	return b
}

// Error says what the foreign route does, and how to remove it.
func (b Bypass) Error() string {
	does := "leads packets past " + b.Want.Link
	switch {
	case drops(b.Foreign):
		does = "drops packets"
	case b.Inside:
		does = "keeps packets for the peer on this host"
	case b.Clear:
		does += " unencrypted"
	}
	return fmt.Sprintf("foreign %s %s; %s", b.Foreign, does, b.Remedy())
}

// Remedy says how to remove the foreign route.
func (b Bypass) Remedy() string {
	if b.Foreign.Protocol == dataplane.ProtocolKernel {
		return fmt.Sprintf("an address of this host on %s covers it: remove that address, or give the overlay another "+
			"network", b.Foreign.Link)
	}
	if ofSegment(b.Foreign) {
		return fmt.Sprintf("a router announces this prefix on %s: change it there, or give the overlay another network",
			b.Foreign.Link)
	}
	return "remove it: " + DeleteCommand(b.Foreign)
}

// DeleteCommand returns the command that deletes a route.
func DeleteCommand(r dataplane.Route) string {
	command := "ip route del "
	if !r.Dst.Addr().Is4() {
		command = "ip -6 route del "
	}
	if drops(r) {
		command += cmp.Or(r.Other, string(r.Kind)) + " "
	}
	command += r.Dst.String()
	switch {
	case r.Via.Is6() && r.Dst.Addr().Is4():
		command += " via inet6 " + r.Via.String()
	case r.Via.IsValid():
		command += " via " + r.Via.String()
	}
	if r.Link != "" {
		command += " dev " + shellword.Of(r.Link)
	}
	if r.Metric != 0 {
		command += fmt.Sprintf(" metric %d", r.Metric)
	}
	return command
}
