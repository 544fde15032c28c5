package invariants

import (
	"context"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// watchedCloud follows a node's changes of a cloud provider's tables, which all nodes share.
type watchedCloud struct {
	driver.Lane
	n    *Node
	seen *dataplane.State // by the last look, without what a planted defect makes of it
}

// Look notes what the node can know.
func (d *watchedCloud) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	seen, err := d.Lane.Look(ctx, e)
	if err == nil {
		d.seen = seen.State
	}
	return seen, err
}

// Apply checks each change against the last look.
func (d *watchedCloud) Apply(ctx context.Context, ops []dataplane.Op) []error {
	for _, op := range ops {
		r := op.Object.(dataplane.CloudRoute)
		if was, exists := d.seen.CloudRoutes.Get(r.CloudRouteKey); exists {
			r = was
		}
		d.n.all.checkCloudOp(d.n, op, r)
	}
	return d.Lane.Apply(ctx, ops)
}

// notePlans notes for which subnets a plan for the tables may be: those that the node held when it began.
func (n *Node) notePlans(plan []dataplane.Op) {
	if plan != nil {
		n.routed = []netip.Prefix{n.key.V4, n.last.V4}
	}
}

// checkCloudOp checks that a node makes only the route of its own subnet, and that apart from entries in the
// place of that one it deletes only its own ones, and those that lead nowhere, inside the networks.
func (i *Invariants) checkCloudOp(n *Node, op dataplane.Op, r dataplane.CloudRoute) {
	own := slices.Contains(n.routed, r.Dst)
	switch {
	case own:
		return
	case op.Verb != dataplane.Delete:
		i.broken("own-routes-only", "%s did %q, though its subnet is %s", n.name, op, n.last)
	case !i.inNetworks(r.Dst):
		i.broken("foreign-untouched", "%s did %q, outside the overlay", n.name, op)
	case !r.Self && r.Status != dataplane.CloudBroken:
		i.broken("foreign-untouched", "%s did %q, a route to %s", n.name, op, r.Target)
	}
}
