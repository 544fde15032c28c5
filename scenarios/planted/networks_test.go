package planted

import (
	"context"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// meddler adds a rule about the first network's packets to the chains of another one. The first network
// removes it again, and no packet is lost.
type meddler struct{ driver.Lane }

func (m meddler) Apply(ctx context.Context, ops []dataplane.Op) []error {
	wrong := make([]dataplane.Op, len(ops))
	for i, op := range ops {
		c, ok := op.Object.(dataplane.Chain)
		if ok && op.Verb != dataplane.Delete && c.Hook == dataplane.Forward {
			rules, err := c.Rules.List()
			if err != nil {
				panic(err)
			}
			from := dataplane.Match{Prefix: netip.MustParsePrefix("10.5.0.0/16")}
			c.Rules = dataplane.MakeRules(append(rules, dataplane.Rule{From: from, Verdict: dataplane.Accept})...)
			op.Object = c
		}
		wrong[i] = op
	}
	return m.Lane.Apply(ctx, wrong)
}

// meddling returns a defect of the second network.
func meddling() simworld.Wrap {
	return func(name string, p daemon.Parts) daemon.Parts {
		if strings.HasSuffix(name, "/green") {
			p.Lanes[node.FirewallLane] = meddler{p.Lanes[node.FirewallLane]}
		}
		return p
	}
}
