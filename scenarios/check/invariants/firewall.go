package invariants

import (
	"cmp"
	"context"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// watchedFirewall follows the changes of a host's firewall.
type watchedFirewall struct {
	driver.Lane
	n *Node
}

// Look notes when the node has looked: it cannot know of what a fault does later.
func (w watchedFirewall) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	w.n.lookedAtFirewall = w.n.all.elapsed()
	return w.Lane.Look(ctx, e)
}

// Apply reads the packet filter just before and after the change.
func (w watchedFirewall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	before, _ := w.n.masquerades()
	errs := w.Lane.Apply(ctx, ops)
	after, err := w.n.masquerades()
	flushed := !w.n.follows.sound && w.n.follows.touchedAt >= w.n.lookedAtFirewall
	if err != nil || flushed {
		return errs // a fault that makes looks fail blinds this look as well
	}
	for _, f := range cidr.Families {
		if before[f] && !after[f] && w.n.all.about.Masquerade && !w.n.between() && w.n.carries(f) {
			w.n.all.broken("masquerade-stays", "%s did %q, and now nothing masquerades %s", w.n.name, ops, f)
		}
	}
	return errs
}

// carries reports whether the config that the node has in force has a family switched
// on: the newest that it can use. The node deletes the rules of a family that is off. Without
// a snapshot the node may work from a config that a former run saved, which the invariants
// do not know.
func (n *Node) carries(f cidr.Family) bool {
	snap := n.client.View().Snapshot
	if snap == nil || len(snap.Config.Data) == 0 {
		return false
	}
	text := cmp.Or(n.config, string(snap.Config.Data))
	if s := &n.families; s.text != text {
		network, err := config.Parse([]byte(text))
		s.text = text
		for _, each := range cidr.Families {
			s.on[each] = err != nil || network.Of(each).Enabled()
		}
	}
	return n.families.on[f]
}

// familySwitches says which families a config has switched on: both, if its text is unreadable.
type familySwitches struct {
	text string
	on   [2]bool
}

// masquerades reports for each family whether connections to the outside leave
// with the host's address, by any chain.
func (n *Node) masquerades() (by [2]bool, err error) {
	seen, err := n.Firewall().Look(context.Background(), dataplane.Extent{})
	if err != nil {
		return by, err
	}
	for k, c := range seen.State.Chains {
		if k.Hook == dataplane.Postrouting && c.Jump != dataplane.Missing && c.Rules != "" {
			by[k.Family] = true
		}
	}
	return by, nil
}
