package agent

import (
	"context"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// noFirewall is the lane of a host without a firewall.
type noFirewall struct{}

func (noFirewall) Look(context.Context, dataplane.Extent) (driver.Observation, error) {
	none := driver.Tool{About: "not supported on this system"}
	tools := driver.Tools{IPTables: none, NFTables: none}
	facts := driver.FirewallFacts{Tools: [2]driver.Tools{tools, tools}}
	return driver.Observation{State: dataplane.NewState(), Facts: facts}, nil
}

func (noFirewall) Apply(_ context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i := range errs {
		errs[i] = driver.ErrUnsupported
	}
	return errs
}

func (noFirewall) Hints() <-chan struct{} { return nil }
