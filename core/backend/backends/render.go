package backends

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// Render implements [backend.Backend]. Each backend renders all peers that may send by it,
// so that their packets are received. Each peer's route is the one of the backend by
// which to send to it.
func (s *Set) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	if len(s.members) == 1 {
		m := s.members[0]
		state, problems := m.backend.Render(env, s.self(0, self), s.facesFor(0, peers))
		s.dropElse(state)
		return backend.OverNextHops(env, state), problems
	}
	peers, problems := s.disjoint(env, self, peers)
	rendered, refused := s.renderEach(env, self, peers)
	problems = append(problems, refused.problems...)
	chosen := s.refusing(refused.peers)
	union := dataplane.NewState()
	for i, state := range rendered {
		chosen.chooseRoutes(i, state, peers)
		greet(state)
		for _, p := range joinPeers(state, union, peers) {
			if !refused.has(p.Key) {
				problems = append(problems, p)
			}
		}
		union.AddAll(state)
	}
	s.catchAll(union)
	s.dropElse(union)
	return backend.OverNextHops(env, union), problems
}

// refusals are the peers that the backends cannot serve.
type refusals struct {
	peers    map[refusal]bool
	problems []backend.Problem // each once
}

// has reports whether a backend cannot serve a peer.
func (r refusals) has(peer lease.Key) bool {
	return slices.ContainsFunc(r.problems, func(p backend.Problem) bool { return p.Key == peer })
}

// renderEach renders each backend, with all peers that may send by it.
func (s *Set) renderEach(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) ([]*dataplane.State, refusals) {
	var states []*dataplane.State
	r := refusals{peers: map[refusal]bool{}}
	known := map[string]bool{}
	for i, m := range s.members {
		if m.role.Closed {
			states = append(states, dataplane.NewState())
			continue
		}
		state, refused := m.backend.Render(m.env(env), s.self(i, self), s.facesFor(i, peers))
		for _, p := range refused {
			if !p.Served {
				r.peers[refusal{i, p.Key}] = true
			}
			if !known[p.String()] {
				known[p.String()] = true
				r.problems = append(r.problems, p)
			}
		}
		states = append(states, state)
	}
	return states, r
}

// self returns the node's own lease as the backend has to see it.
func (s *Set) self(i int, self backend.Self) backend.Self {
	face, ok := s.members[i].face(&self.Attrs)
	if !ok && len(s.members) > 1 {
		face = lease.Attrs{PublicIP: self.Attrs.PublicIP, PublicIPv6: self.Attrs.PublicIPv6}
		ok = true
	}
	if ok {
		self.Attrs = face
	}
	return self
}

// facesFor returns the peers that may send by a backend, as that has to see them.
func (s *Set) facesFor(i int, peers []*lease.Lease) []*lease.Lease {
	faces := make([]*lease.Lease, 0, len(peers))
	for _, p := range peers {
		if len(s.members) == 1 && p.Attrs.Ways.IsEmpty() {
			faces = append(faces, p) // the backend itself judges the record
		} else if s.accepts(i, p) {
			faces = append(faces, s.faceOf(i, p))
		}
	}
	return faces
}

// chooseRoutes removes the routes to peers that are reached by another backend. A peer that
// is reached by this backend gets a route of its own beside one for the whole network, which stays
// if this backend encrypts: see [Set.catchAll].
func (s *Set) chooseRoutes(i int, state *dataplane.State, peers []*lease.Lease) {
	m := s.members[i]
	for _, f := range cidr.Families {
		whole, isWhole := wholeRoute(state, m.network.Of(f).Network)
		for _, p := range peers {
			subnet := p.Key.Of(f)
			if !subnet.IsValid() {
				continue
			}
			key := dataplane.RouteKey{Dst: subnet}
			chosen, ok := s.choose(p, f)
			switch {
			case !ok || chosen != i:
				state.Routes.Delete(key)
			case isWhole && !state.Routes.Has(key):
				own := whole
				own.RouteKey = key
				state.AddRoute(own)
			}
		}
		if isWhole && (!m.encrypts()) {
			state.Routes.Delete(whole.RouteKey)
		}
	}
}

// catchAll keeps packets to subnets without a route from leaving by the default route, in the clear, while a backend
// encrypts: its route for the whole network stays. In IPv6, Linux refuses a next hop on one device that a route of
// another device covers, but not one that a route without a device covers. So there packets are dropped as long as a
// peer is reached by another device.
func (s *Set) catchAll(union *dataplane.State) {
	network := s.network().V6.Network
	whole, isWhole := wholeRoute(union, network)
	if !isWhole {
		return
	}
	for _, r := range union.Routes.All {
		if r.Via.IsValid() && r.Link != whole.Link && cidr.Contains(network, r.Dst) {
			union.AddRoute(dataplane.Route{
				RouteKey: whole.RouteKey, Kind: dataplane.Blackhole, Protocol: dataplane.Protocol,
			})
			return
		}
	}
}

// dropElse drops packets to the network that no other route takes, while a backend encrypts by its device. The routes
// by the device go when that is down or gone, and packets would leave by the default route, in the clear. IPsec's
// policies need no route.
func (s *Set) dropElse(state *dataplane.State) {
	for _, m := range s.members {
		for _, f := range cidr.Families {
			if m.spec.Encrypts && !m.backend.Extent().Policies && m.carries(f) {
				state.AddRoute(firewall.LastResort(m.network.Of(f).Network))
			}
		}
	}
}

// wholeRoute returns the route for the whole network of a backend whose device itself knows
// where each peer is.
func wholeRoute(state *dataplane.State, network netip.Prefix) (dataplane.Route, bool) {
	for _, r := range state.Routes.All {
		if r.Dst == network {
			return r, true
		}
	}
	return dataplane.Route{}, false
}

// greetEvery is the interval, in seconds, at which WireGuard peers send keepalives during
// a change. The first one begins the exchange of keys.
const greetEvery = 25

// greet makes devices that exchange keys do so without a packet of a pod.
func greet(state *dataplane.State) {
	peers := state.WGPeers.Clone()
	for _, p := range peers.All {
		if p.Keepalive == 0 {
			p.Keepalive = greetEvery
			state.AddWGPeer(p)
		}
	}
}

// joinPeers makes WireGuard peers that newer backends want too do for all of these: packets of each
// backend are taken from them, and the newest backend names the endpoint. If records of two nodes have one key, the
// older one names it, and the other is a problem.
func joinPeers(state, newer *dataplane.State, peers []*lease.Lease) (problems []backend.Problem) {
	for _, newest := range newer.WGPeers.All {
		p, ok := state.WGPeers.Get(newest.WGPeerKey)
		if !ok {
			continue
		}
		all := newest
		for other := range p.Others.All {
			all.Others = all.Others.With(other)
		}
		if newest.Endpoint != p.Endpoint {
			first, second := oldestOf(newest, peers), oldestOf(p, peers)
			differ := first != nil && second != nil && first != second
			other := p.Endpoint
			if differ && second.CreateRevision < first.CreateRevision {
				all.Endpoint, other = other, all.Endpoint
				first, second = second, first
			}
			if differ {
				all.Others = all.Others.With(other)
				problems = append(problems, backend.Problem{Key: second.Key, Served: true, Err: fmt.Errorf(
					"record %s has the same PublicKey %s: packets go to its endpoint %s",
					first.Key, p.Public, all.Endpoint)})
			}
		}
		for subnet := range p.AllowedIPs {
			all.Allow(subnet)
		}
		state.AddWGPeer(all)
	}
	return problems
}

// oldestOf returns the oldest record for which a peer stands, or nil.
func oldestOf(p dataplane.WGPeer, peers []*lease.Lease) (oldest *lease.Lease) {
	for _, l := range peers {
		stands := p.Allows(l.Key.V4) || p.Allows(l.Key.V6)
		if stands && (oldest == nil || l.CreateRevision < oldest.CreateRevision) {
			oldest = l
		}
	}
	return oldest
}

// disjoint returns the peers that can be served by any backend, without the halves that
// the backends would refuse. A single backend compares its own peers; here two that
// overlap may be served by two backends.
func (s *Set) disjoint(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (kept []*lease.Lease, problems []backend.Problem) {
	var shared []*lease.Lease
	for _, p := range peers {
		if !s.sharesNone(p) {
			shared = append(shared, p)
		}
	}
	type half struct {
		family cidr.Family
		key    lease.Key
	}
	served := map[half]bool{}
	for _, f := range cidr.Families {
		fit, refused := backend.Peers(env, self, backend.AnyType, f, shared)
		problems = append(problems, refused...)
		for _, p := range fit {
			served[half{f, p.Key}] = true
		}
	}
	for _, p := range shared {
		key := p.Key.Filter(func(f cidr.Family, _ lease.Key) bool { return served[half{f, p.Key}] })
		switch {
		case key == p.Key:
			kept = append(kept, p)
		case key.IsValid():
			part := *p
			part.Key = key
			kept = append(kept, &part)
		}
	}
	return kept, problems
}
