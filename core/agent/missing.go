package agent

import (
	"context"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// missingLane is the lane of a part that the host does not have: it holds
// nothing, and refuses every op.
type missingLane struct{ facts driver.Facts }

// missingFacts are the facts of missing lanes whose node expects some.
var missingFacts = map[node.LaneID]driver.Facts{node.FirewallLane: noFirewall()}

func noFirewall() driver.FirewallFacts {
	none := driver.Tool{About: "not supported on this system"}
	tools := driver.Tools{IPTables: none, NFTables: none}
	return driver.FirewallFacts{Tools: [2]driver.Tools{tools, tools}}
}

func (m missingLane) Look(context.Context, dataplane.Extent) (driver.Observation, error) {
	return driver.Observation{State: dataplane.NewState(), Facts: m.facts}, nil
}

func (missingLane) Apply(_ context.Context, ops []dataplane.Op) []error {
	return driver.ApplyEach(ops, func(dataplane.Op) error { return driver.ErrUnsupported })
}

func (missingLane) Hints() <-chan struct{} { return nil }
