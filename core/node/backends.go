package node

import (
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

// Change describes a change of the cluster's backend that is under way on this node.
type Change = transition.Change

// PreviousBackend is a previous backend that the node keeps.
type PreviousBackend = transition.Previous

// followBackends goes on with a change of the backend.
func (n *Node) followBackends() {
	if n.network.known && n.store.snap != nil {
		n.putBackends(n.transition.Step(n.facts()))
	}
}

// putBackends is called when the backends in use, or their roles, have changed: the host is rendered again.
func (n *Node) putBackends(changed transition.Changed) {
	h := &n.host
	if changed == transition.Nothing {
		return
	}
	if changed == transition.Backends {
		set := n.transition.Set()
		extent := set.Extent()
		for _, link := range extent.Links {
			h.links[link] = true
			delete(h.handover.saved, link)
		}
		for _, p := range set.Ports() {
			if !slices.Contains(h.ports, p) {
				h.ports = append(h.ports, p)
			}
		}
		h.policies = h.policies || extent.Policies
		n.files.text = subnetText{}
		h.standing = lease.Key{}
	}
	h.want = wantCache{}
	n.hostLane().outdated(n.now)
}

// facts returns what the use of backends depends on.
func (n *Node) facts() transition.Facts {
	l := n.lanes[FirewallLane]
	return transition.Facts{
		Now: n.now, Own: n.ownOffer(), Records: n.records(), Beside: n.store.view.Beside != nil,
		Host: transition.Host{
			Have: n.host.have, Filter: n.firewall.have, FilterNotes: n.firewall.notes,
			FilterFails: !l.fresh && (l.clean && n.firewall.have != nil || len(l.failures) > 0 || l.lookErr != nil),
		},
	}
}

// records returns the records that the use of backends depends on.
func (n *Node) records() transition.Records {
	return transition.Records{
		Snapshot: n.store.snap, Lost: n.store.lost.peers, Want: n.host.want.state, Source: sources{n},
	}
}

// ownOffer returns what peers may have read of this node.
func (n *Node) ownOffer() (own transition.Own) {
	l := &n.lease
	if l.grant != nil {
		own.Held = &l.grant.Attrs
	}
	for _, r := range []*Request{&l.request, &l.unknown} {
		if r.Verb == Create || r.Verb == Update || r.Verb == Move {
			own.Sent = append(own.Sent, &r.Attrs)
		}
	}
	return own
}

// sources implements [transition.Source].
type sources struct{ n *Node }

func (s sources) Peers() []*lease.Lease    { return s.n.served() }
func (s sources) Env() backend.Env         { return s.n.env() }
func (s sources) Self() backend.Self       { return s.n.lease.self }
func (s sources) Undisputed() backend.Self { return s.n.rendersFor() }

func (s sources) Last() (lease.Attrs, bool) {
	if g := s.n.lease.grant; g != nil {
		return g.Attrs, true
	}
	own, ok := s.n.ownRecord()
	return own.Attrs, ok
}

// publishable returns the attributes for the node's record.
func (n *Node) publishable() lease.Attrs {
	return n.transition.Publish(n.ownOffer(), sources{n}, n.lease.full)
}

// givesUpPrevious ends the previous backends that the host cannot have, if the plan would change nothing else of the
// node's own. It returns false if there are none.
func (n *Node) givesUpPrevious(plan []dataplane.Op) bool {
	var differ []string
	for _, op := range plan {
		if isOwn(op) {
			differ = append(differ, deviceOf(op.Object))
		}
	}
	changed := n.transition.GiveUp(n.facts(), differ)
	n.putBackends(changed)
	return changed != transition.Nothing
}

// deviceOf returns the device that an object is, or belongs to, or "".
func deviceOf(o dataplane.Object) string {
	switch o := o.(type) {
	case dataplane.Link:
		return o.Name
	case dataplane.Proxy:
		return o.Link
	case dataplane.Sysctl:
		return o.Link
	}
	return linkOf(o)
}

// leaves reports whether the host may have a device of a backend that is no longer in use, and a guard that belongs to
// it: the guard goes after the device.
func (n *Node) leaves() bool {
	if n.firewall.have == nil || !firewall.HasGuards(n.firewall.have) {
		return false
	}
	if n.host.have == nil {
		return true
	}
	used := n.transition.Set().Extent().Links
	for name := range n.host.have.Links {
		if n.host.links[name] && (n.removal.begun() || !slices.Contains(used, name)) {
			return true
		}
	}
	return false
}
