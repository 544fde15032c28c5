package node

import (
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

func (n *Node) env() backend.Env {
	return backend.Env{
		Config: n.network.config, Uplink: n.host.uplink, Facts: n.host.facts, Commands: n.commands.have.Commands,
		TxChecksum: n.host.checksums.value, NextHops: n.host.nextHops,
		KeptKeys: n.host.kept,
	}
}

// wantCache keeps the last rendering and its inputs. Rendering is a pure function.
type wantCache struct {
	state  *dataplane.State // nil: nothing yet
	base   *dataplane.State // equal to state: see shareTables
	snap   *lease.Snapshot
	lost   []*lease.Lease // the peers that were kept though snap lacks them
	peers  []*lease.Lease // the leases of both that were rendered
	self   backend.Self
	uplink uplink.Uplink
	routes []driver.Route
	keys   map[dataplane.SecretName]driver.Key
	kept   map[string]dataplane.PublicKey
	lacks  map[dataplane.LinkKind]string // kinds of links that the kernel lacks

	txChecksum  string
	nextHops    bool // the rendering uses next-hop objects
	canNextHops bool // the kernel has them

	indexed *peerIndex // of state and peers; nil: not made yet
}

// holds reports whether the cached rendering is valid for this node, apart from
// its peers.
func (c *wantCache) holds(self backend.Self, h *hostState) bool {
	return c.state != nil &&
		c.self.Key == self.Key &&
		c.self.Attrs.Equal(self.Attrs) &&
		c.uplink == h.uplink &&
		slices.EqualFunc(c.routes, h.facts.Routes, driver.Route.Equal) &&
		maps.Equal(c.keys, h.facts.Keys) &&
		maps.Equal(c.kept, h.kept) &&
		maps.Equal(c.lacks, h.facts.Unsupported) &&
		c.txChecksum == h.checksums.value &&
		c.canNextHops == h.facts.NextHops
}

// wanted returns the desired state of the host, and whether it has changed since
// the last call.
func (n *Node) wanted() (want *dataplane.State, moved bool) {
	h := &n.host
	self := n.rendersFor()
	if h.want.holds(self, h) && h.want.follows(&n.store) {
		return h.want.state, false
	}
	next, ok := n.updated(self)
	h.nextHops, h.coming = next.nextHops, wantCache{}
	if !ok {
		next.state = n.render(self, next.peers)
	}
	next.base = next.state
	h.want = next
	return next.state, true
}

// usesNextHops reports whether the routes to that many peers use next-hop objects. A node
// that uses them goes on until only half as many peers are left as it began with, so that a
// cluster around that number does not change its routes again and again.
func (n *Node) usesNextHops(peers int) bool {
	from := n.opts.NextHopsFrom
	if from == 0 || !n.host.facts.NextHops {
		return false
	}
	used := n.host.have != nil && n.host.have.NextHops.Len() > 0 // by the last run, too
	return peers >= from || (used || n.host.want.nextHops) && 2*peers >= from
}

// renderedLast reports whether the desired state of the host follows from the newest
// snapshot, which may hold a peer again that an earlier one lacks.
func (n *Node) renderedLast() bool {
	return n.synced() && n.host.want.state != nil && n.host.want.snap == n.store.snap
}

// render asks the backend for the whole desired state, and reports the peers that
// it refuses.
func (n *Node) render(self backend.Self, peers []*lease.Lease) *dataplane.State {
	state, problems := n.transition.Set().Render(n.env(), self, peers)
	n.reportProblems(problems)
	if n.opts.IPForward {
		for _, setting := range n.forwarding() {
			state.AddSysctl(setting)
		}
	}
	// IPsec's policies let decrypted packets go to the own subnet. Without the bridge's route, as
	// before the first pod, the host would forward them by its default route.
	if n.opts.Blackhole || n.transition.Set().Extent().Policies {
		for _, r := range firewall.Blackhole(self.Key) {
			state.AddRoute(r)
		}
	}
	return state
}

// undisputed returns the halves of a subnet that may still belong to the node.
// While it is fenced, a half certainly does not if it lies outside the network
// or if another node's record covers it.
func (n *Node) undisputed(key lease.Key) lease.Key {
	if !n.fenced() {
		return key
	}
	others := n.others()
	return key.Filter(func(f cidr.Family, half lease.Key) bool {
		taken := func(p *lease.Lease) bool { return p.Key.Overlaps(half) }
		return n.fits(n.network.config.Only(f), half) == nil && !slices.ContainsFunc(others, taken)
	})
}

// others returns all records except the node's own.
func (n *Node) others() []*lease.Lease {
	peers := make([]*lease.Lease, 0, len(n.store.snap.Leases))
	own := n.identity()
	for _, p := range n.store.snap.Leases {
		if !own.Owns(p) {
			peers = append(peers, p)
		}
	}
	return peers
}

// served returns the records of all peers to serve, sorted by key: those in the
// datastore and those that it lost by accident.
func (n *Node) served() []*lease.Lease {
	peers := n.others()
	if len(n.store.lost.peers) == 0 {
		return peers
	}
	peers = append(peers, n.store.lost.peers...)
	slices.SortStableFunc(peers, func(a, b *lease.Lease) int { return a.Key.Compare(b.Key) })
	return peers
}

// reportProblems logs each peer that the backend refuses and did not refuse before.
func (n *Node) reportProblems(problems []backend.Problem) {
	known := map[string]bool{}
	for _, p := range n.host.problems {
		known[p.String()] = true
	}
	for _, p := range problems {
		if !known[p.String()] {
			n.event(Warning, "peer-refused", p.String())
		}
	}
	n.host.problems = problems
}
