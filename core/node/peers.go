package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/probe"
)

// PeerState says whether a peer is served.
type PeerState string

// The states.
const (
	PeerServed  PeerState = "served"  // the host holds all objects of the peer
	PeerPending PeerState = "pending" // the host does not hold all of them yet
	PeerRefused PeerState = "refused" // the peer has a problem: it cannot be served, or not in every family
)

// Peer describes another node, as this one serves it.
type Peer struct {
	Subnet    lease.Key  `json:"Subnet"`
	PublicIP  netip.Addr `json:"PublicIP"`
	PublicIP6 netip.Addr `json:"PublicIPv6"`
	Backend   string     `json:"Backend"` // the type in its record; empty where the record has none
	State     PeerState  `json:"State"`
	Lost      bool       `json:"Lost"`     // the datastore lost its record by accident; it is served for a while
	Reserved  bool       `json:"Reserved"` // its lease never expires
	Ways      []Way      `json:"Ways"`     // one for each family, as desired
	Problems  []string   `json:"Problems"`
}

// Way says how packets to a peer leave in one family.
type Way struct {
	Subnet netip.Prefix `json:"Subnet"`
	// Type is "tunnel", "direct" (a route without encapsulation), "router" (the way is known to the
	// router of the underlay alone), or "none".
	Type string     `json:"Type"`
	Link string     `json:"Link"` // the device
	Via  netip.Addr `json:"Via"`  // the gateway
	// Former is the identity of the way if it is one that the cluster leaves.
	Former string `json:"Former"`
	// Session is "alive" or "none": whether a WireGuard peer had a handshake in the
	// last three minutes. It is empty on other ways.
	Session string `json:"Session"`
	// Handshake is the time of the last one with a WireGuard peer, as of the last look;
	// it is absent on other ways, and if there was none.
	Handshake time.Time `json:"Handshake,omitzero"`
	// Probe tells whether the peer answers; null: it is not probed.
	Probe *probe.Result `json:"Probe"`
}

// PeerCounts counts the peers by state.
type PeerCounts struct {
	Served  int `json:"Served"`
	Pending int `json:"Pending"`
	Refused int `json:"Refused"`
	Lost    int `json:"Lost"`   // also counted by state
	Former  int `json:"Former"` // reached by a previous backend; also counted by state
}

// Peers describes the peers, sorted by subnet. With thousands of them it takes some
// milliseconds.
func (n *Node) Peers() []Peer {
	if n.store.snap == nil {
		return nil
	}
	served := n.served()
	peers := make([]Peer, len(served))
	problems, pending := n.problemsByPeer(), n.pendingPeers()
	former := n.formerOf()
	lost := make(map[*lease.Lease]bool, len(n.store.lost.peers))
	for _, l := range n.store.lost.peers {
		lost[l] = true
	}
	for i, l := range served {
		p := Peer{
			Subnet: l.Key, PublicIP: l.Attrs.PublicIP, PublicIP6: l.Attrs.PublicIPv6, Backend: l.Attrs.BackendType,
			State: PeerServed, Reserved: l.Reserved(), Problems: problems[l.Key],
			Lost: lost[l],
		}
		switch {
		case len(p.Problems) > 0:
			p.State = PeerRefused
		case pending[l.Key]:
			p.State = PeerPending
		}
		for _, f := range cidr.Families {
			if subnet := l.Key.Of(f); subnet.IsValid() {
				way := n.wayTo(subnet, former[l.Key])
				way.Probe = n.probes.result(subnet)
				p.Ways = append(p.Ways, way)
			}
		}
		peers[i] = p
	}
	slices.SortFunc(peers, func(a, b Peer) int {
		return cmp.Or(a.Subnet.V4.Addr().Compare(b.Subnet.V4.Addr()), a.Subnet.V6.Addr().Compare(b.Subnet.V6.Addr()))
	})
	return peers
}

// wayTo returns the desired way to a peer's subnet.
func (n *Node) wayTo(subnet netip.Prefix, former string) Way {
	w := Way{Subnet: subnet, Type: "none", Former: former}
	if n.network.known && n.transition.Set().Extent().Provider.Name != "" {
		w.Type, w.Link = "router", n.host.uplink.Link // unless the host has a way of its own
	}
	want := n.host.want.state
	if want == nil {
		return w
	}
	x := n.host.want.index()
	if key, ok := x.wgPeers[subnet]; ok {
		w.Type, w.Link = "tunnel", key.Link
		w.Session = "none"
		if _, alive := n.host.have.Alive[key]; alive {
			w.Session = "alive"
		}
		w.Handshake = n.host.have.Handshakes[key]
		return w
	}
	if link, ok := x.tunnels[subnet]; ok {
		w.Type, w.Link = "tunnel", link
		return w
	}
	if r, ok := want.Routes.Get(dataplane.RouteKey{Dst: subnet}); ok {
		w.Type, w.Link = "direct", r.Link
		w.Via = r.Via
		if n.host.links[r.Link] {
			w.Type = "tunnel"
		}
	}
	return w
}

// formerOf returns the identity of the previous backend by which the node sends to a peer.
func (n *Node) formerOf() map[lease.Key]string {
	former := map[lease.Key]string{}
	if !n.network.known {
		return former
	}
	for _, use := range n.transition.Uses(n.records()) {
		for _, key := range use.Sends {
			former[key] = use.ID
		}
	}
	return former
}

// peerProblems returns what keeps single peers from being served: the backend or the
// kernel refuses their records, another program's route is in the way, or a tunnel is
// missing. All other peers are served, so it keeps no node from being ready.
func (n *Node) peerProblems() []backend.Problem {
	problems := slices.Clone(n.host.problems)
	for _, subnet := range n.host.refusals.subnets() {
		was := n.host.refusals.of[subnet]
		problems = append(problems, backend.Problem{Key: was.key, Err: was.err})
	}
	for _, conflict := range n.host.conflicts {
		if p, ok := n.peerOf(conflict.Want.Dst); ok {
			problems = append(problems, backend.Problem{Key: p.Key, Err: conflict})
		}
	}
	problems = append(problems, n.bypassed()...)
	return append(problems, n.missingTunnels()...)
}

// problemsByPeer returns the problems of each peer that has some.
func (n *Node) problemsByPeer() map[lease.Key][]string {
	problems := map[lease.Key][]string{}
	for _, p := range n.peerProblems() {
		problems[p.Key] = append(problems[p.Key], p.Err.Error())
	}
	if !n.network.known {
		return problems
	}
	for _, l := range n.served() {
		if n.transition.Set().LeavesOut(l) && n.transition.Set().FallsBack(l) {
			text := "its record offers no encrypting backend any more, though an earlier one did: packets to it are dropped " +
				"until it does again, since another program may have written the record"
			problems[l.Key] = append(problems[l.Key], text)
		} else if n.transition.Set().LeavesOut(l) {
			text := fmt.Sprintf("its record is of backend %q, and this node runs %q: that node has another network "+
				"config, or another version that does not know it", l.Attrs.BackendType, n.transition.Set().Type())
			problems[l.Key] = append(problems[l.Key], text)
		}
	}
	return problems
}

// pendingPeers returns the peers of which the host may lack objects.
func (n *Node) pendingPeers() map[lease.Key]bool {
	pending := map[lease.Key]bool{}
	want, l := &n.host.want, n.hostLane()
	if want.state == nil || want.snap != n.store.snap {
		rendered := make(map[*lease.Lease]bool, len(want.peers))
		for _, p := range want.peers {
			rendered[p] = want.state != nil
		}
		for _, p := range n.served() {
			if !rendered[p] {
				pending[p.Key] = true
			}
		}
	}
	if want.state == nil || len(l.found) == 0 || l.retry {
		return pending
	}
	for _, op := range l.found {
		for _, subnet := range want.index().subnetsOf(op.Object) {
			if p, ok := n.peerOf(subnet); ok {
				pending[p.Key] = true
			}
		}
	}
	return pending
}

// countPeers counts the peers by state. The datastore has total of them.
func (n *Node) countPeers(total int) PeerCounts {
	problems, pending := n.problemsByPeer(), n.pendingPeers()
	c := PeerCounts{Refused: len(problems), Lost: len(n.store.lost.peers)}
	for key := range pending {
		if len(problems[key]) == 0 {
			c.Pending++
		}
	}
	c.Served = total + c.Lost - c.Refused - c.Pending
	if n.network.known {
		for _, use := range n.transition.Uses(n.records()) {
			c.Former += len(use.Sends)
		}
	}
	return c
}
