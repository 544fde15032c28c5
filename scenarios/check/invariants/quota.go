package invariants

import (
	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// noteCreate notes what a process knows when it asks for a new lease. The store may serve the request after another
// process has begun.
func (n *Node) noteCreate(r *node.Request) {
	if r == nil || r.Verb != node.Create {
		return
	}
	if n.creates == nil {
		n.creates = map[lease.Key]*lease.Snapshot{}
	}
	n.creates[r.Key] = n.claims.snap
}

// checkQuota checks that no node gets a lease of a family beside one that it knew to have when it asked (rule T5 of
// docs/security.md: one address holds one lease in each network and family). Reservations, and subnets that the node's
// config has no room for, do not count. A node object of Kubernetes cannot hold two.
func (i *Invariants) checkQuota(w store.Write) {
	n := i.nodes[w.Client]
	if n == nil || n.Twinned || w.Old != nil || w.New == nil || w.New.Flaw != "" {
		return
	}
	got := w.New.Lease
	known := n.creates[got.Key]
	if known == nil {
		return
	}
	network, _, _ := usableConfig(n.config)
	holder := alloc.Holder{Attrs: got.Attrs, Network: network}
	held := holder.Other(i.about.Store.Snapshot().Leases, got.Key)
	if held != nil && holder.Other(known.Leases, got.Key) != nil {
		i.broken("quota", "%s takes a lease of %s beside %s, which it knew to have", n.name, got.Key, held.Key)
	}
}
