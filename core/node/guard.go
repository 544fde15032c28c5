package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/reconcile"
)

// guard holds the last guarded desired state and its inputs.
type guard struct {
	want, have *dataplane.State
	reconcile.Guarded
}

// guarded returns the desired state with routes that keep packets encrypted although
// foreign routes would lead them past WireGuard. It logs those foreign routes, and the
// ones that take packets all the same.
func (n *Node) guarded(want *dataplane.State) *dataplane.State {
	g, have := &n.host.guard, n.host.have
	if g.want == want && g.have == have {
		return g.State
	}
	*g = guard{want, have, reconcile.Guard(want, have, n.ownership(), n.peersWithin)}
	n.once(Warning, "foreign-route", inOneLine(g.notes()))
	n.once(Error, "foreign-route-wins", inOneLine(textsOf(g.Beaten)))
	return g.State
}

// ownership returns the marks of the node's objects on the host.
func (n *Node) ownership() reconcile.Ownership {
	return reconcile.Ownership{Links: n.host.links, Networks: n.host.networks}
}

// notes name the foreign routes over which added routes take precedence.
func (g *guard) notes() []string {
	var notes []string
	for _, b := range g.Held {
		notes = append(notes, fmt.Sprintf("foreign %s would lead packets past %s unencrypted, and narrower routes "+
			"of flannel prevent that; %s", b.Foreign, b.Want.Link, b.Remedy()))
	}
	return notes
}

// clear names the foreign routes that lead packets past encryption.
func (g *guard) clear() []string {
	var texts []string
	for _, b := range g.Beaten {
		if b.Clear {
			texts = append(texts, b.Error())
		}
	}
	return texts
}

// bypassed returns the problems of the peers to which foreign routes take packets.
func (n *Node) bypassed() []backend.Problem {
	var problems []backend.Problem
	for _, b := range n.host.guard.Beaten {
		for _, subnet := range b.Subnets {
			if p, ok := n.peerOf(subnet); ok {
				problems = append(problems, backend.Problem{Key: p.Key, Err: b})
			}
		}
	}
	return problems
}

// peersWithin returns the subnets to which the desired state leads that overlap a
// destination, in order. A record that the backend refuses names none: it must move no
// packet, least of all those to the node's own pods.
func (n *Node) peersWithin(dst netip.Prefix) []netip.Prefix {
	x := n.host.want.index()
	for bits := dst.Bits(); bits > 0; bits-- { // no two served subnets overlap
		subnet := netip.PrefixFrom(dst.Addr(), bits).Masked()
		if _, ok := x.peers[subnet]; ok && x.leadsTo(subnet) {
			return []netip.Prefix{subnet}
		}
	}
	if dst.IsSingleIP() {
		return nil // a host may have a foreign route for each of its own pods
	}
	var found []netip.Prefix
	all := x.inOrder()
	from := func(s netip.Prefix, a netip.Addr) int { return s.Addr().Compare(a) }
	first, _ := slices.BinarySearchFunc(all, dst.Addr(), from)
	for _, subnet := range all[first:] {
		if !dst.Contains(subnet.Addr()) {
			break
		}
		if x.leadsTo(subnet) {
			found = append(found, subnet)
		}
	}
	return found
}
