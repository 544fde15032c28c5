package node

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// peerIndex finds peers by their subnets, and the subnets behind the neighbours
// and FDB entries of a desired state. A kernel may refuse thousands of peers at
// once, and each refused op has to be assigned to its peer.
type peerIndex struct {
	peers  map[netip.Prefix]*lease.Lease
	neighs map[dataplane.NeighKey][]netip.Prefix // by gateway, in order
	macs   map[dataplane.FDBKey][]netip.Prefix   // by the gateways' MAC, in order
	// The subnets behind WireGuard peers, and the devices of other tunnels without a
	// route for each subnet.
	wgPeers map[netip.Prefix]dataplane.WGPeerKey
	tunnels map[netip.Prefix]string
	routes  *dataplane.Table[dataplane.RouteKey, dataplane.Route]
	ordered []netip.Prefix // the peers' subnets; nil: not sorted yet
	// The subnets to which the routes over next hops lead.
	nextHops map[dataplane.NextHopID]netip.Prefix
}

// index returns the index of the rendered state and its peers.
func (c *wantCache) index() *peerIndex {
	if c.indexed == nil {
		c.indexed = newPeerIndex(c.state, c.peers)
	}
	return c.indexed
}

func newPeerIndex(want *dataplane.State, peers []*lease.Lease) *peerIndex {
	x := &peerIndex{
		peers:  make(map[netip.Prefix]*lease.Lease, len(peers)),
		neighs: map[dataplane.NeighKey][]netip.Prefix{},
		macs:   map[dataplane.FDBKey][]netip.Prefix{},

		wgPeers: map[netip.Prefix]dataplane.WGPeerKey{},
		tunnels: map[netip.Prefix]string{},

		nextHops: map[dataplane.NextHopID]netip.Prefix{},
	}
	for _, p := range peers {
		for _, subnet := range [...]netip.Prefix{p.Key.V4, p.Key.V6} {
			if _, older := x.peers[subnet]; subnet.IsValid() && !older {
				x.peers[subnet] = p
			}
		}
	}
	if want == nil {
		return x
	}
	x.addTunnels(want)
	x.routes = &want.Routes
	for key, r := range want.Routes.All {
		if !r.Via.IsValid() {
			continue
		}
		if r.NextHop != 0 {
			x.nextHops[r.NextHop] = key.Dst
		}
		gateway := dataplane.NeighKey{Link: r.Link, IP: r.Via}
		x.neighs[gateway] = append(x.neighs[gateway], key.Dst)
		if neigh, ok := want.Neighs.Get(gateway); ok {
			entry := dataplane.FDBKey{Link: r.Link, MAC: neigh.MAC}
			x.macs[entry] = append(x.macs[entry], key.Dst)
		}
	}
	for _, subnets := range x.neighs {
		slices.SortFunc(subnets, netip.Prefix.Compare)
	}
	for _, subnets := range x.macs {
		slices.SortFunc(subnets, netip.Prefix.Compare)
	}
	return x
}

// addTunnels indexes the objects that carry packets to a subnet without a route of
// its own.
func (x *peerIndex) addTunnels(want *dataplane.State) {
	for key, p := range want.WGPeers.All {
		for subnet := range p.AllowedIPs {
			x.wgPeers[subnet] = key
		}
	}
	for key := range want.Peers.All {
		x.tunnels[key.Subnet] = key.Link
	}
	for key, p := range want.Policies.All {
		if p.Action == dataplane.Protect && p.Dir == dataplane.PolicyOut {
			x.tunnels[key.Dst] = ""
		}
	}
}

// leadsTo reports whether the desired state has an object that leads to a subnet.
func (x *peerIndex) leadsTo(subnet netip.Prefix) bool {
	_, encrypted := x.wgPeers[subnet]
	_, tunnel := x.tunnels[subnet]
	return encrypted || tunnel || x.routes != nil && x.routes.Has(dataplane.RouteKey{Dst: subnet})
}

// inOrder returns the peers' subnets by their first addresses.
func (x *peerIndex) inOrder() []netip.Prefix {
	if x.ordered == nil {
		x.ordered = slices.SortedFunc(maps.Keys(x.peers), netip.Prefix.Compare)
	}
	return x.ordered
}

// subnetsOf returns the peers' subnets to which an object leads.
func (x *peerIndex) subnetsOf(o dataplane.Object) []netip.Prefix {
	switch o := o.(type) {
	case dataplane.Route:
		return []netip.Prefix{o.Dst}
	case dataplane.NextHop:
		if subnet, known := x.nextHops[o.ID]; known {
			return []netip.Prefix{subnet}
		}
		return nil
	case dataplane.Peer:
		return []netip.Prefix{o.Subnet}
	case dataplane.Policy:
		if o.Dir == dataplane.PolicyOut {
			return []netip.Prefix{o.Dst}
		}
		return []netip.Prefix{o.Src}
	case dataplane.WGPeer:
		return slices.Collect(o.AllowedIPs)
	case dataplane.Neigh:
		return x.neighs[o.NeighKey]
	case dataplane.FDBEntry:
		return x.macs[o.FDBKey]
	}
	return nil
}
