package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// Another program holds the lock of the firewall for 3 s. Meanwhile the agent
// reads and changes routes as usual.
func TestBusyFirewallDelaysNoRoute(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.firewall.apply = func(_ context.Context, ops []dataplane.Op) []error {
			time.Sleep(3 * time.Second)
			return make([]error, len(ops))
		}
		r.node.react = func(turn int, in node.Input) node.Effects {
			switch {
			case turn == 0:
				lanes := onFirewall(node.LaneEffects{Plan: []dataplane.Op{{Verb: dataplane.Replace, Object: dataplane.Chain{}}}})
				lanes[node.HostLane].Look = &node.Look{}
				return node.Effects{Lanes: lanes}
			case in.Lanes[node.HostLane].Looked != nil:
				plan := []dataplane.Op{{Verb: dataplane.Replace, Object: dataplane.Route{}}}
				return node.Effects{Lanes: onHost(node.LaneEffects{Plan: plan})}
			}
			return node.Effects{}
		}
		r.start()
		turns := r.node.turns()
		if len(turns) != 3 || turns[2].Lanes[node.HostLane].Applied == nil ||
			turns[2].Lanes[node.FirewallLane].Applied != nil {
			t.Fatalf("the routes are not done while the firewall is busy: %+v", turns)
		}
		r.pass(3 * time.Second)
		turns = r.node.turns()
		if len(turns) != 4 || len(turns[3].Lanes[node.FirewallLane].Applied.Errs) != 1 {
			t.Fatalf("the chains are not done when the lock is free: %+v", turns)
		}
		r.stop()
	})
}

func TestFirewallIsInspectedAndHints(t *testing.T) {
	inBubble(t, func(r *rig) {
		trouble := errors.New("no such table")
		r.firewall.look = func(context.Context) error { return trouble }
		r.node.react = onTurn(1, node.Effects{Lanes: onFirewall(node.LaneEffects{Look: &node.Look{}})})
		r.start()
		r.firewall.hints <- struct{}{}
		r.pass(time.Second)
		turns := r.node.turns()
		if len(turns) != 3 || !turns[1].Lanes[node.FirewallLane].Hint || turns[1].Lanes[node.HostLane].Hint {
			t.Fatalf("the hint did not come through: %+v", turns)
		}
		if got := turns[2].Lanes[node.FirewallLane].Looked; got == nil || !errors.Is(got.Err, trouble) {
			t.Errorf("the look came back as %+v", got)
		}
		r.stop()
	})
}

// A host without a firewall reports that, and refuses every op.
func TestNoFirewall(t *testing.T) {
	seen, err := missingLane{noFirewall()}.Look(t.Context(), dataplane.Extent{})
	if err != nil || seen.State.Len() != 0 {
		t.Errorf("%+v %v", seen, err)
	}
	for _, tools := range seen.Facts.(driver.FirewallFacts).Tools {
		for _, tool := range []driver.Tool{tools.IPTables, tools.NFTables} {
			if tool.Usable || tool.About != "not supported on this system" {
				t.Errorf("tool %+v, want an unusable one that says why", tool)
			}
		}
	}
	errs := missingLane{noFirewall()}.Apply(t.Context(), make([]dataplane.Op, 2))
	if len(errs) != 2 || !errors.Is(errs[1], driver.ErrUnsupported) {
		t.Errorf("apply: %v", errs)
	}
}
