package agent

import (
	"context"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// startFirewall begins what the node asks of the packet filter, in a lane of
// its own: whoever holds the lock there keeps no route waiting.
func (a *agent) startFirewall(ready node.Ready) {
	if ready.Inspect {
		a.launch(wallLane, a.gentle, effect{what: "look at the firewall", limit: wallLimit}, func(ctx context.Context) func(*node.Input) {
			i := a.inspect(ctx)
			return func(in *node.Input) { in.Inspected = &i }
		})
	}
	if ready.Chains != nil {
		plan := ready.Chains
		a.launch(wallLane, a.hard, effect{what: "change of the firewall", limit: wallLimit}, func(ctx context.Context) func(*node.Input) {
			applied := node.Applied{Errs: a.opts.Firewall.Apply(ctx, plan)}
			return func(in *node.Input) { in.ChainsApplied = &applied }
		})
	}
}

func (a *agent) inspect(ctx context.Context) node.Inspected {
	seen, err := a.opts.Firewall.Look(ctx, dataplane.Extent{})
	if err != nil {
		return node.Inspected{Err: err}
	}
	return node.Inspected{Facts: seen.Facts.(driver.FirewallFacts), Have: seen.State}
}

// noFirewall is the lane of a host without a firewall.
type noFirewall struct{}

func (noFirewall) Look(context.Context, dataplane.Extent) (driver.Observation, error) {
	none := driver.Tool{About: "not supported on this system"}
	tools := driver.Tools{IPTables: none, NFTables: none}
	facts := driver.FirewallFacts{Tools: [2]driver.Tools{tools, tools}}
	return driver.Observation{State: dataplane.NewState(0), Facts: facts}, nil
}

func (noFirewall) Apply(_ context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i := range errs {
		errs[i] = driver.ErrUnsupported
	}
	return errs
}

func (noFirewall) Hints() <-chan struct{} { return nil }
