package planted

import (
	"context"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// overreacher gives the uplink each setting that its own device gets. Without router advertisements the uplink of
// a real host loses its default route after some time. No packet of the simulator depends on it.
type overreacher struct{ driver.Lane }

func (o overreacher) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := o.Lane.Apply(ctx, ops)
	for _, op := range ops {
		c, ok := op.Object.(dataplane.Sysctl)
		if !ok || c.Link == "" || op.Verb == dataplane.Delete {
			continue
		}
		c.Path = strings.Replace(c.Path, "/"+c.Link+"/", "/eth0/", 1)
		c.Link = "eth0"
		o.Lane.Apply(ctx, []dataplane.Op{{Verb: op.Verb, Object: c}})
	}
	return errs
}

// overreaching returns the defect.
func overreaching() simworld.Wrap {
	return func(_ string, p daemon.Parts) daemon.Parts {
		p.Lanes[node.HostLane] = overreacher{p.Lanes[node.HostLane]}
		return p
	}
}
