package scenarios

import (
	"context"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// watchedWall follows what is done to a host's packet filter.
type watchedWall struct {
	driver.Firewall
	n *watched
}

// Apply looks at the packet filter as it is just before and after.
func (w watchedWall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	before := w.n.masquerades()
	errs := w.Firewall.Apply(ctx, ops)
	after := w.n.masquerades()
	for _, f := range cidr.Families {
		if before[f] && !after[f] && w.n.world.top.walled() {
			w.n.all.broken("masquerade-stays", "%s did %q, and now nothing masquerades %s", w.n.name, texts(ops), f)
		}
	}
	return errs
}

// masquerades reports for which families connections to the outside leave
// under the host's name, by whichever chain.
func (n *watched) masquerades() (by [2]bool) {
	_, have, err := n.Rules()
	if err != nil {
		return by
	}
	for k, c := range have.Chains {
		if k.Hook == dataplane.Postrouting && c.Jump != dataplane.Missing && c.Rules != "" {
			by[k.Family] = true
		}
	}
	return by
}
