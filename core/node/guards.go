package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/firewall"
)

// guardWithin is the longest time for which a node waits for the guard of an unencrypted device.
const guardWithin = time.Minute

// guards returns the packets of the underlay that only some hosts may send to this one, by the family of
// their outer header. A node without an unencrypted device beside an encrypting one has none.
func (n *Node) guards() (by [2][]firewall.Guard) {
	if !n.network.known || n.store.snap == nil || len(n.network.backend.Former()) == 0 {
		return by
	}
	return n.use().guards
}

// guardsInForce reports whether the host's packet filter, as last read, holds all guards of the moment, so
// that an unencrypted device may be open. The addresses that it admits may be those of a moment ago.
func (n *Node) guardsInForce() bool {
	guards := n.guards()
	for _, f := range cidr.Families {
		network := n.network.config.Of(f).Network
		switch {
		case len(guards[f]) == 0, !n.lease.self.Key.Of(f).IsValid():
			continue
		case n.firewall.have == nil, !firewall.InForce(n.firewall.have, f, network, guards[f]):
			return false
		}
	}
	return true
}

// closed returns the previous backends whose devices the node must not have before their guards are in force. Devices
// that exist stay, since peers use them, until the host has turned out to lack a guard that the node cannot make.
func (n *Node) closed() map[string]bool {
	closed := map[string]bool{}
	if n.host.have == nil || n.lease.self.Key.IsValid() && n.guardsInForce() {
		return closed
	}
	l := n.lanes[FirewallLane]
	cannot := !l.fresh && (l.clean && n.firewall.have != nil || len(l.failures) > 0 || l.lookErr != nil)
	exists := func(link string) bool { _, ok := n.host.have.Links[link]; return ok }
	for _, id := range n.network.backend.Guarded() {
		if cannot || !slices.ContainsFunc(n.network.backend.Links(id), exists) {
			closed[id] = true
		}
	}
	return closed
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
	used := n.network.backend.Extent().Links
	for name := range n.host.have.Links {
		if n.host.links[name] && (n.removal.begun() || !slices.Contains(used, name)) {
			return true
		}
	}
	return false
}

// endUnguarded ends the former ways whose guards the host cannot hold.
func (n *Node) endUnguarded() {
	c, set := &n.network.change, n.network.backend
	switch {
	case len(set.Guarded()) == 0, n.guardsInForce():
		c.bare = time.Time{}
		return
	case c.bare.IsZero():
		c.bare = n.now
	}
	if n.now.Before(c.bare.Add(guardWithin)) {
		return
	}
	why := strings.Join(n.firewall.notes, "; ")
	if n.firewall.have == nil {
		why = "its packet filter cannot be read"
	}
	for _, id := range set.Guarded() {
		n.network.givenUp[id] = true
		n.event(Warning, "backend-given-up", fmt.Sprintf("this host does not keep the unencrypted %s beside %s, "+
			"as it cannot keep other hosts from it: %s; peers that have not followed the change reach this node once they do",
			id, set.Present(), why))
		set = set.Without(id)
	}
	c.bare = time.Time{}
	n.useWays(set)
}
