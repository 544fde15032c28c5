package oracle

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// serveByOne notes the subnet of a peer to which one route for the whole network leads.
func (d *derivation) serveByOne(subnet netip.Prefix) {
	if subnet.IsValid() {
		d.behind = append(d.behind, subnet)
	}
}

// splitRoutes takes the routes for a whole network from what is demanded while the backend
// changes: peers may have routes of their own instead. It names those that have neither.
func (d *Demand) splitRoutes(have *dataplane.State) []string {
	d.want = d.want.Clone()
	var short []string
	d.want.Routes.DeleteFunc(func(k dataplane.RouteKey, whole dataplane.Route) bool {
		device := whole.Link == tun || slices.Contains(wireguards[:], whole.Link)
		if !device || !slices.Contains(d.networks, k.Dst) {
			return false
		}
		if routed(have, k.Dst) { // perhaps that of a previous backend, with another metric
			return true
		}
		for _, subnet := range d.behind {
			if k.Dst.Contains(subnet.Addr()) && !routed(have, subnet) {
				short = append(short, "missing a route to "+subnet.String())
			}
		}
		return true
	})
	return short
}

// acceptFormer takes the routes to peers from the demand while the backend changes, as far as the node reaches these
// peers by another backend: it does so where the former one encrypts, and where the host cannot have the present one.
func (d *Demand) acceptFormer(have *dataplane.State) {
	d.want.Routes.DeleteFunc(func(k dataplane.RouteKey, r dataplane.Route) bool {
		is, ok := have.Routes.Get(dataplane.RouteKey{Dst: k.Dst})
		return ok && is.Link != r.Link && is.Kind == r.Kind && is.Protocol == dataplane.Protocol
	})
}

// routed reports whether the host has a route to that very prefix by flannel, or by the kernel, whose route
// the node must not replace.
func routed(have *dataplane.State, prefix netip.Prefix) bool {
	for k, r := range have.Routes.All {
		if k.Dst == prefix && (r.Protocol == dataplane.Protocol || r.Protocol == dataplane.ProtocolKernel) {
			return true
		}
	}
	return false
}
