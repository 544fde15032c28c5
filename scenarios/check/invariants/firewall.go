package invariants

import (
	"context"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// watchedFirewall follows the changes of a host's firewall.
type watchedFirewall struct {
	driver.Lane
	n *Node
}

// Apply looks at the packet filter as it is just before and after.
func (w watchedFirewall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	before, _ := w.n.masquerades()
	errs := w.Lane.Apply(ctx, ops)
	after, err := w.n.masquerades()
	if err != nil {
		return errs // a fault that lets looks fail blinds this one as well
	}
	for _, f := range cidr.Families {
		if before[f] && !after[f] && w.n.all.about.Masquerade {
			w.n.all.broken("masquerade-stays", "%s did %q, and now nothing masquerades %s", w.n.name, ops, f)
		}
	}
	return errs
}

// masquerades reports for which families connections to the outside leave
// under the host's name, by whichever chain.
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
