package invariants

import (
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
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
	i.noteNodeRecord(w.Old, true)
	i.noteNodeRecord(w.New, false)
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

// noteNodeRecord notes that a node has a record, or had one until now.
func (i *Invariants) noteNodeRecord(n *nodelease.Node, gone bool) {
	if n == nil || n.Values[nodelease.Marker] == "" {
		return
	}
	h := &history{gone: gone, goneAt: i.elapsed()}
	for text := range strings.SplitSeq(n.PodCIDRs, ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			*cidr.Pick(cidr.FamilyOf(p.Addr()), &h.key.V4, &h.key.V6) = p
		}
	}
	i.onNodes[n.Name+" "+n.PodCIDRs] = h
}

// checkAssigned checks that a node takes only subnets assigned to it.
func (i *Invariants) checkAssigned(n *Node, key lease.Key) {
	if i.about.Config != "" && !i.podCIDRs[n.name+" "+store.NodeCIDRs(key)] {
		i.broken("subnet-assigned", "%s takes %s, which never was its pod CIDR", n.name,
			strings.ReplaceAll(key.String(), "&", " and "))
	}
}
