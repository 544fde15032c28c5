// Package mesh compares the knowledge of several daemons about each other: which nodes
// reach which, and in which direction packets are lost.
package mesh

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
)

// Answer holds the status and the peers of one daemon, or the reason why there are none.
type Answer struct {
	From   string // where it was asked
	Status node.Status
	Peers  control.Peers
	Err    error
}

// Node is a node of the mesh.
type Node struct {
	Subnet  lease.Key  `json:"Subnet"`
	Address netip.Addr `json:"Address"` // that it publishes
	Asked   bool       `json:"Asked"`   // its daemon has answered
}

// Passage says what happens to packets from one node to another.
type Passage string

// The passages.
const (
	Passes  Passage = "passes"  // they arrive, and so do the answers
	Arrives Passage = "arrives" // they arrive, and the answers are lost
	Lost    Passage = "lost"    // they do not arrive
	Silent  Passage = "silent"  // there is no answer; the other daemon was not asked, or cannot tell
	Unknown Passage = "unknown" // this node was not asked, or has not probed yet
)

// Link is the way of packets from one node to another, in one family.
type Link struct {
	From    lease.Key    `json:"From"`
	To      lease.Key    `json:"To"`
	Subnet  netip.Prefix `json:"Subnet"` // of To
	Passage Passage      `json:"Passage"`
	Probe   probe.Result `json:"Probe"` // as From has it
}

// Result is the mesh as far as the daemons know it.
type Result struct {
	Nodes    []Node   `json:"Nodes"`
	Links    []Link   `json:"Links"`    // between different nodes, by From and To
	Unasked  []string `json:"Unasked"`  // daemons that did not answer, and why
	Warnings []string `json:"Warnings"` // for people: links with trouble
}

// Compare combines the answers of several daemons.
func Compare(answers []Answer) Result {
	var r Result
	view := map[lease.Key]Answer{}
	for _, a := range answers {
		switch {
		case a.Err != nil:
			r.Unasked = append(r.Unasked, a.From+": "+a.Err.Error())
		case !a.Status.Subnet.IsValid():
			r.Unasked = append(r.Unasked, a.From+": the node has no subnet yet")
		default:
			view[a.Status.Subnet] = a
		}
	}
	r.Nodes = nodes(view)
	for _, from := range r.Nodes {
		for _, to := range r.Nodes {
			if from.Subnet != to.Subnet {
				r.Links = append(r.Links, links(view, from.Subnet, to.Subnet)...)
			}
		}
	}
	r.Warnings = r.warnings()
	return r
}

// nodes lists all nodes that the daemons are or know, by address.
func nodes(view map[lease.Key]Answer) []Node {
	known := map[lease.Key]Node{}
	for key, a := range view {
		for _, p := range a.Peers.Peers {
			if !known[p.Subnet].Asked {
				known[p.Subnet] = Node{Subnet: p.Subnet, Address: address(p.PublicIP, p.PublicIP6)}
			}
		}
		up := a.Status.Uplink
		known[key] = Node{Subnet: key, Address: address(up.Public(cidr.V4), up.Public(cidr.V6)), Asked: true}
	}
	var all []Node
	for _, n := range known {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(a.Address.Compare(b.Address), a.Subnet.Compare(b.Subnet))
	})
	return all
}

// address returns the IPv4 address if there is one.
func address(v4, v6 netip.Addr) netip.Addr {
	if v4.IsValid() {
		return v4
	}
	return v6
}

// links returns the ways from one node to another, one for each family.
func links(view map[lease.Key]Answer, from, to lease.Key) []Link {
	var all []Link
	for _, f := range cidr.Families {
		subnet := to.Of(f)
		if !subnet.IsValid() || !from.Of(f).IsValid() {
			continue
		}
		l := Link{From: from, To: to, Subnet: subnet, Passage: Unknown}
		if r := result(view, from, subnet); r != nil && r.Finding != probe.Unknown {
			l.Probe = *r
			l.Passage = passage(*r, view, to, from.Of(f))
		}
		all = append(all, l)
	}
	return all
}

// result returns what a node knows about a subnet; nil: nothing.
func result(view map[lease.Key]Answer, from lease.Key, subnet netip.Prefix) *probe.Result {
	for _, p := range view[from].Peers.Peers {
		for _, w := range p.Ways {
			if w.Subnet == subnet {
				return w.Probe
			}
		}
	}
	return nil
}

// passage judges the packets to a node: by their answers, or else by what the other
// daemon has heard of the probes.
func passage(r probe.Result, view map[lease.Key]Answer, to lease.Key, own netip.Prefix) Passage {
	if r.Finding != probe.Unreachable {
		return Passes
	}
	other, asked := view[to]
	if !asked || !other.Status.Probes.Listens {
		return Silent
	}
	back := result(view, to, own)
	if back == nil {
		return Silent
	}
	if other.Peers.TakenAt.Sub(back.Heard) <= round(other.Status) {
		return Arrives
	}
	return Lost
}

// round is the longest time between two probes of a node that probes as often as this
// one: an interval with its jitter, or what the budget of all its peers takes, and the
// time of an examination.
func round(s node.Status) time.Duration {
	const perPeer, examination = 4, 15 * time.Second
	budget := time.Duration(perPeer*s.Peers) * time.Second / probe.Rate
	return max(s.Probes.Interval*6/5, budget) + examination
}
