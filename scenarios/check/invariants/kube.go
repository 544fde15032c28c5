package invariants

import (
	"strings"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// wroteNode follows a change of a Kubernetes node: a daemon writes only its own
// node, and only annotations.
func (i *Invariants) wroteNode(w store.NodeWrite) {
	i.changes++
	i.noteWrite(w.Client, "node "+w.Name)
	if w.New != nil {
		i.podCIDRs[w.Name+" "+w.New.PodCIDRs] = true
	}
	if w.Client == "" {
		return
	}
	switch {
	case w.Name != w.Client:
		i.broken("own-records-only", "%s writes to the node object of %s", w.Client, w.Name)
	case w.Old == nil || w.New == nil || w.Old.PodCIDRs != w.New.PodCIDRs || w.Old.UID != w.New.UID:
		i.broken("own-records-only", "%s changes more of its node object than annotations", w.Client)
	}
}

// checkAssigned checks that a node takes only subnets assigned to it.
func (i *Invariants) checkAssigned(n *Node, key lease.Key) {
	if i.about.Config != "" && !i.podCIDRs[n.name+" "+store.NodeCIDRs(key)] {
		i.broken("subnet-assigned", "%s takes %s, which never was its pod CIDR", n.name,
			strings.ReplaceAll(key.String(), "&", " and "))
	}
}
