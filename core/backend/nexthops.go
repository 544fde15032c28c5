package backend

import "github.com/flanneld/flannel/core/dataplane"

// OverNextHops returns a rendering whose IPv4 routes to peers use next-hop objects, if the
// node wants them. Linux compares each new IPv4 route that has a gateway of its own with
// all others of its device, so the time for all routes grows with the square of their
// number. With IPv6 it does not.
func OverNextHops(env Env, state *dataplane.State) *dataplane.State {
	if !env.NextHops {
		return state
	}
	over := state.Clone()
	for key, r := range state.Routes.All {
		if !key.Dst.Addr().Is4() || key.Metric != 0 || !r.Via.Is4() || r.Protocol != dataplane.Protocol {
			continue
		}
		r.NextHop = dataplane.NextHopFor(key.Dst)
		over.AddRoute(r)
		over.AddNextHop(dataplane.NextHop{ID: r.NextHop, Link: r.Link, Via: r.Via, OnLink: r.OnLink})
	}
	return over
}
