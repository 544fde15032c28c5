package oracle

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// foreignRoutes returns the routes inside the networks that are not flannel's, and lead
// to no device of flannel.
func (d Demand) foreignRoutes(have *dataplane.State) []dataplane.Route {
	var foreign []dataplane.Route
	for _, r := range have.Routes.All {
		if !d.ours(r) && !d.devices[r.Link] && d.inNetworks(r.Dst) {
			foreign = append(foreign, r)
		}
	}
	return foreign
}

// guards reports whether a route to a WireGuard device may be there because of a foreign
// route, over which it takes precedence.
func guards(r dataplane.Route, foreign []dataplane.Route) bool {
	overlaps := func(f dataplane.Route) bool { return f.Dst.Overlaps(r.Dst) }
	return slices.Contains(wireguards[:], r.Link) && slices.ContainsFunc(foreign, overlaps)
}

// clearRoutes names the foreign routes that lead packets for a WireGuard peer past the
// device. Two kinds of routes may do so, since nothing can or may take precedence: those
// to a single address, and those of the kernel.
func (d Demand) clearRoutes(have *dataplane.State, foreign []dataplane.Route) []string {
	var past []string
	for _, p := range d.want.WGPeers.All {
		for subnet := range p.AllowedIPs {
			for _, a := range edges(subnet, have, foreign) {
				r, ok := lookUp(have, a)
				excused := r.Dst.IsSingleIP() || r.Protocol == dataplane.ProtocolKernel || r.Kind != dataplane.Unicast
				if ok && r.Link != p.Link && !excused {
					past = append(past, fmt.Sprintf("clear packets for %s by %s", a, r))
				}
			}
		}
	}
	return past
}

// edges returns the first addresses of the parts into which routes divide a subnet, if a
// foreign route overlaps it.
func edges(subnet netip.Prefix, have *dataplane.State, foreign []dataplane.Route) []netip.Addr {
	overlaps := func(f dataplane.Route) bool { return f.Dst.Overlaps(subnet) }
	if !slices.ContainsFunc(foreign, overlaps) {
		return nil
	}
	edges := []netip.Addr{subnet.Addr()}
	for _, r := range have.Routes.All {
		if r.Dst.Bits() <= subnet.Bits() || !subnet.Contains(r.Dst.Addr()) {
			continue
		}
		edges = append(edges, r.Dst.Addr())
		if next := cidr.Last(r.Dst).Next(); subnet.Contains(next) {
			edges = append(edges, next)
		}
	}
	return edges
}

// lookUp returns the route that the kernel takes to an address: the most specific one,
// and of these the one with the lowest metric.
func lookUp(have *dataplane.State, a netip.Addr) (best dataplane.Route, ok bool) {
	metric := func(r dataplane.Route) uint32 { // an IPv6 route without one has 1024
		if r.Metric == 0 && a.Is6() {
			return 1024
		}
		return r.Metric
	}
	for _, r := range have.Routes.All {
		if !r.Dst.Contains(a) {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(r.Dst.Bits(), best.Dst.Bits()), cmp.Compare(metric(best), metric(r))) > 0 {
			best, ok = r, true
		}
	}
	return best, ok
}
