package reconcile

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// CloudOptions bound what a plan for a cloud provider's tables may do.
type CloudOptions struct {
	Networks []netip.Prefix // the overlay's address space
	Tables   []string       // that have to hold the desired routes
	// Prune allows deletes, as in [Options], and thereby to replace an entry.
	Prune bool
	// Sweep allows to delete the routes inside Networks whose next hop is gone.
	Sweep bool
}

// CloudPlan lists the operations that are due in a provider's tables, and what keeps
// desired routes from being in force.
type CloudPlan struct {
	Ops       []dataplane.Op
	Withheld  int // deletes that Prune did not allow
	Conflicts []CloudConflict
	Pending   []dataplane.CloudRoute // made, and not yet in force
}

// CloudConflict is a desired route over which an entry takes precedence that the node may
// not delete.
type CloudConflict struct{ Want, Have dataplane.CloudRoute }

// Error says what to do about the conflict.
func (c CloudConflict) Error() string {
	if c.Have.Dst == c.Want.Dst {
		return fmt.Sprintf("route %s: the provider's own entry has its place (%s); give the overlay a network apart from "+
			"those of the cloud", c.Want.Dst, c.Have)
	}
	return fmt.Sprintf("route %s: a narrower entry wins over it (%s); remove that or give the overlay another network",
		c.Want.Dst, c.Have)
}

// Cloud returns the plan that puts the desired routes into each of the tables. Apart from
// the entries with exactly a desired destination, it deletes only routes inside our
// networks: those that lead to this instance, and with Sweep those that lead nowhere.
func Cloud(want, have *dataplane.State, opts CloudOptions) CloudPlan {
	c := cloudDiffer{have: have, opts: opts}
	for _, w := range want.CloudRoutes.All {
		for _, table := range opts.Tables {
			w.Table = table
			c.put(w)
		}
	}
	for _, h := range have.CloudRoutes.All {
		if c.leftOver(h) && !wantedDst(want, h.Dst) {
			c.remove(h)
		}
	}
	return c.plan
}

type cloudDiffer struct {
	have *dataplane.State
	opts CloudOptions
	plan CloudPlan
}

// put makes a desired route, after the entries in its place are gone.
func (c *cloudDiffer) put(want dataplane.CloudRoute) {
	var wrong []dataplane.CloudRoute
	stands, blocked := false, false
	for _, h := range c.have.CloudRoutes.All {
		if h.Table != want.Table {
			continue
		}
		switch {
		case h.Dst == want.Dst && h.Self && h.Status != dataplane.CloudBroken:
			stands = true
			if h.Status == dataplane.CloudPending {
				c.plan.Pending = append(c.plan.Pending, h)
			}
		case h.Dst == want.Dst && h.Provided:
			blocked = true
			c.plan.Conflicts = append(c.plan.Conflicts, CloudConflict{want, h})
		case h.Dst == want.Dst:
			wrong = append(wrong, h)
		case cidr.Contains(want.Dst, h.Dst) && !c.leftOver(h):
			c.plan.Conflicts = append(c.plan.Conflicts, CloudConflict{want, h})
		}
	}
	if blocked {
		return
	}
	for _, h := range wrong {
		c.remove(h)
	}
	if !stands && (len(wrong) == 0 || c.opts.Prune) {
		c.plan.Ops = append(c.plan.Ops, dataplane.Op{Verb: dataplane.Create, Object: want})
	}
}

// leftOver reports whether an entry inside our networks is ours, or leads nowhere.
func (c *cloudDiffer) leftOver(h dataplane.CloudRoute) bool {
	dead := c.opts.Sweep && h.Status == dataplane.CloudBroken
	return (h.Self || dead) && !h.Provided && cidr.Within(c.opts.Networks, h.Dst)
}

func (c *cloudDiffer) remove(h dataplane.CloudRoute) {
	if !c.opts.Prune {
		c.plan.Withheld++
		return
	}
	c.plan.Ops = append(c.plan.Ops, dataplane.Op{Verb: dataplane.Delete, Object: h})
}

// wantedDst reports whether a desired route has a destination: put decides about its entries.
func wantedDst(want *dataplane.State, dst netip.Prefix) bool {
	return want.CloudRoutes.Has(dataplane.CloudRouteKey{Dst: dst})
}
