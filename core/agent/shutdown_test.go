package agent

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// shutdown is a case of TestShutdown: the effects under way, and their end.
type shutdown struct {
	ready node.Effects
	world func(context.Context) error
	took  time.Duration
	err   error  // of the effect
	says  string // in the log
}

func shutdowns() map[string]shutdown {
	look := node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{}})}
	plan := node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp})}
	request := node.Effects{Request: &node.Request{Verb: node.Create}}
	untilCancelled := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	brief := func(ctx context.Context) error {
		select {
		case <-time.After(planGrace / 2):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ignores := func(context.Context) error { time.Sleep(time.Hour); return nil }
	return map[string]shutdown{
		"idle":                     {},
		"look":                     {ready: look, world: untilCancelled, err: context.Canceled},
		"look that would end soon": {ready: look, world: brief, err: context.Canceled},
		"look that ignores cancellation": {ready: look, world: ignores, took: planGrace + endGrace,
			says: "look of lane host did not end in time"},
		"plan that is almost done": {ready: plan, world: brief, took: planGrace / 2},
		"plan that hangs":          {ready: plan, world: untilCancelled, took: planGrace, err: context.Canceled},
		"plan that ignores cancellation": {ready: plan, world: ignores, took: planGrace + endGrace,
			says: "plan of lane host did not end in time"},
		"request": {ready: request, world: untilCancelled, err: context.Canceled},
		"request that ignores cancellation": {ready: request, world: ignores, took: planGrace + endGrace,
			says: "lease create did not end in time"},
		"request and plan, both brief": {ready: node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp}),
			Request: request.Request}, world: brief, took: planGrace / 2},
		"writes end by themselves": {ready: node.Effects{Writes: []node.Write{{File: node.SubnetFile}}}},
		"a node with more to do":   {ready: node.Effects{Wake: time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)}},
	}
}

// A shutdown ends in time with any effect under way. The bubble checks that no
// goroutine is left.
func TestShutdown(t *testing.T) {
	for name, c := range shutdowns() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var err error
				ended := make(chan struct{}, 2)
				world := func(ctx context.Context) error {
					e := c.world(ctx)
					if err == nil {
						err = e
					}
					ended <- struct{}{}
					return e
				}
				r.host.look, r.store.call = world, c.world
				r.host.apply = func(ctx context.Context, _ []dataplane.Op) []error { return []error{world(ctx)} }
				if c.ready.Lanes[node.HostLane].Plan == nil {
					r.store.call = world
				}
				r.node.react = onTurn(0, c.ready)
				r.start()
				exit, took := r.stop()
				if exit.Status != 0 || !strings.HasPrefix(exit.Reason, "shutting down") {
					t.Errorf("exit %+v, want status 0", exit)
				}
				if took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if c.world != nil {
					<-ended
				}
				if err != c.err {
					t.Errorf("the effect ended with %v, want %v", err, c.err)
				}
				var said string
				for _, e := range r.events {
					said += e.Text
				}
				if said != c.says {
					t.Errorf("log says %q, want %q", said, c.says)
				}
			})
		})
	}
}

// The last writes of a node are done before the run returns, even if other
// effects hang, and the node gets their results.
func TestShutdownSaves(t *testing.T) {
	succeeds := func(context.Context, []dataplane.Op) []error { return make([]error, 1) }
	ignores := func(context.Context, []dataplane.Op) []error { time.Sleep(time.Hour); return nil }
	for name, c := range map[string]struct {
		plan func(context.Context, []dataplane.Op) []error
		done bool // the outcome of the plan is known at the end
	}{
		"idle host":                      {},
		"plan that succeeds":             {plan: succeeds, done: true},
		"plan that ignores cancellation": {plan: ignores},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.host.apply = c.plan
				r.store.view = lease.View{Snapshot: &lease.Snapshot{Revision: 7}}
				r.node.react = func(turn int, in node.Input) node.Effects {
					switch {
					case turn == 0 && c.plan != nil:
						return node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp})}
					case in.Stop && in.Wrote == nil:
						return node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp, Look: &node.Look{}}),
							Writes: []node.Write{{File: node.StateFile, Data: []byte("last")}}}
					}
					return node.Effects{}
				}
				r.start()
				r.stop()
				if text, err := os.ReadFile(r.opts.StateFile); string(text) != "last" {
					t.Errorf("the state file holds %q (%v)", text, err)
				}
				turns := r.node.turns()
				stop, after := turns[len(turns)-2], turns[len(turns)-1]
				if !stop.Stop || stop.View == nil || stop.View.Snapshot.Revision != 7 {
					t.Errorf("told %+v at the end, want the last view", stop)
				}
				if after.Wrote == nil || after.Wrote.Errs[0] != nil {
					t.Errorf("told %+v after the write", after)
				}
				if c.done && turns[1].Lanes[node.HostLane].Applied == nil && stop.Lanes[node.HostLane].Applied == nil {
					t.Error("not told the result of the plan")
				}
				time.Sleep(time.Hour) // for plans that ignore cancellation
			})
		})
	}
}
