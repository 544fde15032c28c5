package planted

import (
	"context"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
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

// ofGreen returns a defect of the client of the second network.
func ofGreen(client func(daemon.Requester) daemon.Requester) func() simworld.Wrap {
	return func() simworld.Wrap {
		return func(name string, p daemon.Parts) daemon.Parts {
			if strings.HasSuffix(name, "/green") {
				p.Client = client(p.Client)
			}
			return p
		}
	}
}

// unheeding is a client that does not tell that the host refuses the config.
type unheeding struct{ daemon.Requester }

func (u unheeding) View() lease.View {
	v := u.Requester.View()
	if v.Beside != nil && !v.Beside.Anew {
		beside := *v.Beside
		beside.Refused = nil
		v.Beside = &beside
	}
	return v
}

// nagging is a client that tells of a refusal that has ended.
type nagging struct {
	daemon.Requester
	refused *error
}

func (r nagging) View() lease.View {
	v := r.Requester.View()
	if v.Beside == nil || v.Beside.Anew {
		return v
	}
	if v.Beside.Refused != nil {
		*r.refused = v.Beside.Refused
	}
	beside := *v.Beside
	beside.Refused = *r.refused
	v.Beside = &beside
	return v
}
