package agent

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

var (
	subnet = lease.Key{V4: netip.MustParsePrefix("10.5.3.0/24")}
	attrs  = lease.Attrs{BackendType: "vxlan"}
	oneOp  = []dataplane.Op{{Verb: dataplane.Create, Object: dataplane.Link{Name: "flannel.1"}}}

	asWritten = []cmp.Option{
		cmpopts.EquateErrors(), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}),
	}
)

func TestFirstTurnBringsTheView(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.store.view = lease.View{Snapshot: &lease.Snapshot{Revision: 7}, Synced: true}
		r.start()
		want := []node.Input{{View: &r.store.view}}
		if diff := cmp.Diff(want, r.node.turns(), asWritten...); diff != "" {
			t.Error(diff)
		}
		r.stop()
	})
}

// Every effect ends with one turn that carries its result.
func TestEffectsComeBack(t *testing.T) {
	grant := lease.Grant{Lease: lease.Lease{Key: subnet}}
	granted := func(call string) *node.Requested {
		return &node.Requested{Grant: lease.Grant{Lease: lease.Lease{Attrs: lease.Attrs{BackendType: call}}}}
	}
	have := dataplane.NewState()
	have.AddLink(dataplane.Link{Name: "flannel.1"})
	for name, c := range map[string]struct {
		ready node.Effects
		want  node.Input
	}{
		"look": {
			node.Effects{Lanes: onHost(node.LaneEffects{
				Look: &node.Look{Extent: dataplane.Extent{Links: []string{"flannel.1"}}},
			})},
			node.Input{Lanes: looked(have)},
		},
		"plan": {
			node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp})},
			node.Input{Lanes: [node.LaneCount]node.LaneInput{node.HostLane: {Applied: &node.Applied{Errs: []error{nil}}}}},
		},
		"create": {
			node.Effects{Request: &node.Request{Verb: node.Create, Key: subnet, Attrs: attrs, TTL: time.Hour}},
			node.Input{Requested: granted("create 10.5.3.0-24 vxlan 1h0m0s")},
		},
		"renew": {
			node.Effects{Request: &node.Request{Verb: node.Renew, Grant: grant}},
			node.Input{Requested: granted("renew 10.5.3.0-24")},
		},
		"update": {
			node.Effects{Request: &node.Request{Verb: node.Update, Grant: grant, Attrs: attrs, TTL: time.Hour}},
			node.Input{Requested: granted("update 10.5.3.0-24 vxlan 1h0m0s")},
		},
		"release": {
			node.Effects{Request: &node.Request{Verb: node.Release, Grant: grant}},
			node.Input{Requested: &node.Requested{}},
		},
		"writes": {
			node.Effects{Writes: []node.Write{{File: node.SubnetFile, Data: []byte("x")},
				{File: node.StateFile, Data: []byte("y")}}},
			node.Input{Wrote: &node.Wrote{Errs: []error{nil, nil}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.node.react = onTurn(0, c.ready)
				r.start()
				turns := r.node.turns()
				if len(turns) != 2 {
					t.Fatalf("%d turns, want 2", len(turns))
				}
				if diff := cmp.Diff(c.want, turns[1], asWritten...); diff != "" {
					t.Error(diff)
				}
				r.stop()
			})
		})
	}
}

func TestWakeIsKept(t *testing.T) {
	inBubble(t, func(r *rig) {
		due := time.Now().Add(7 * time.Second)
		r.node.react = onTurn(0, node.Effects{Wake: due})
		r.start()
		r.pass(time.Minute)
		if at := r.node.times(); len(at) != 2 || !at[1].Equal(due) {
			t.Errorf("turns at %v, want the second and last at %v", at, due)
		}
		r.stop()
	})
}

// Signals that arrive during a turn become one further turn.
func TestArrivalsAreCoalesced(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.node.react = func(turn int, _ node.Input) node.Effects {
			if turn == 1 {
				time.Sleep(time.Second)
			}
			return node.Effects{}
		}
		r.start()
		r.host.hints <- struct{}{}
		synctest.Wait() // turn 1 is running
		r.host.hints <- struct{}{}
		r.store.mu.Lock()
		r.store.view = lease.View{Synced: true}
		r.store.mu.Unlock()
		r.store.changed <- struct{}{}
		r.pass(2 * time.Second)
		want := []node.Input{{View: &lease.View{}}, hostHint(), {Lanes: hostHint().Lanes, View: &lease.View{Synced: true}}}
		if diff := cmp.Diff(want, r.node.turns(), asWritten...); diff != "" {
			t.Error(diff)
		}
		r.stop()
	})
}

// A storm of signals causes a burst of turns and then one turn in each interval. The
// last signal is not lost.
func TestStormsArePaced(t *testing.T) {
	for name, c := range map[string]struct {
		stream func(*rig) chan struct{}
		turn   node.Input
	}{
		"hints":   {func(r *rig) chan struct{} { return r.host.hints }, hostHint()},
		"changes": {func(r *rig) chan struct{} { return r.store.changed }, node.Input{View: &lease.View{}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.start()
				for range 1000 {
					select {
					case c.stream(r) <- struct{}{}:
					default:
					}
					r.pass(time.Millisecond)
				}
				r.pass(pace)
				if len(c.stream(r)) != 0 {
					t.Error("a signal was lost")
				}
				want := []node.Input{{View: &lease.View{}}}
				for range burst + time.Second/pace {
					want = append(want, c.turn)
				}
				if diff := cmp.Diff(want, r.node.turns(), asWritten...); diff != "" {
					t.Error(diff)
				}
				r.stop()
			})
		})
	}
}

// A paced stream delays nothing else.
func TestWakeIsKeptWhileAStreamIsPaced(t *testing.T) {
	inBubble(t, func(r *rig) {
		due := time.Now().Add(pace / 2)
		r.node.react = onTurn(burst, node.Effects{Wake: due})
		r.start()
		for range burst + 1 {
			r.host.hints <- struct{}{}
			synctest.Wait()
		}
		r.pass(pace / 2)
		if at := r.node.times(); len(at) != burst+2 || !at[burst+1].Equal(due) {
			t.Errorf("turns at %v, want the last at %v", at, due)
		}
		r.pass(pace)
		if n := len(r.node.turns()); n != burst+3 {
			t.Errorf("%d turns, want %d", n, burst+3)
		}
		r.stop()
	})
}

// A slow host delays neither the lease nor the files.
func TestSlowHostDelaysNothingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.host.look = func(context.Context) error { time.Sleep(5 * time.Second); return nil }
		r.node.react = onTurn(0, node.Effects{
			Lanes:   onHost(node.LaneEffects{Look: &node.Look{}}),
			Request: &node.Request{Verb: node.Renew},
			Writes:  []node.Write{{File: node.SubnetFile}},
		})
		r.start()
		var requested, wrote bool
		for _, in := range r.node.turns() {
			requested = requested || in.Requested != nil
			wrote = wrote || in.Wrote != nil
			if in.Lanes[node.HostLane].Looked != nil {
				t.Error("the look is over too early")
			}
		}
		if !requested || !wrote {
			t.Errorf("requested %t, wrote %t while the look goes on", requested, wrote)
		}
		r.pass(6 * time.Second)
		if last := r.node.turns(); last[len(last)-1].Lanes[node.HostLane].Looked == nil {
			t.Error("the look has not come back")
		}
		r.stop()
	})
}

// An effect that hangs is cancelled at its limit, and the node gets the error.
func TestHangingEffectsEnd(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		ready node.Effects
		limit time.Duration
		err   func(node.Input) error
	}{
		"look": {
			node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{}})}, lookLimit,
			func(in node.Input) error { return in.Lanes[node.HostLane].Looked.Err },
		},
		"plan": {
			node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp})}, planLimit,
			func(in node.Input) error { return in.Lanes[node.HostLane].Applied.Errs[0] },
		},
		"request": {
			node.Effects{Request: &node.Request{Verb: node.Renew}}, requestLimit,
			func(in node.Input) error { return in.Requested.Err },
		},
		"request with a limit of its own": {
			node.Effects{Request: &node.Request{Verb: node.Renew, Limit: 2 * time.Second}}, 2 * time.Second,
			func(in node.Input) error { return in.Requested.Err },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.host.look, r.store.call = hang, hang
				r.host.apply = func(ctx context.Context, _ []dataplane.Op) []error { return []error{hang(ctx)} }
				r.node.react = onTurn(0, c.ready)
				r.start()
				r.pass(c.limit - time.Nanosecond)
				if n := len(r.node.turns()); n != 1 {
					t.Fatalf("%d turns before the limit, want 1", n)
				}
				r.pass(time.Second)
				turns := r.node.turns()
				if len(turns) != 2 {
					t.Fatalf("%d turns after the limit, want 2", len(turns))
				}
				if err := c.err(turns[1]); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
				}
				r.stop()
			})
		})
	}
}

func TestFailuresReachTheNode(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.store.call = func(context.Context) error { return lease.ErrLost }
		r.host.apply = func(context.Context, []dataplane.Op) []error { return []error{driver.ErrBusy} }
		r.node.react = onTurn(0, node.Effects{
			Lanes: onHost(node.LaneEffects{Plan: oneOp}), Request: &node.Request{Verb: node.Renew},
			Writes: []node.Write{{File: node.SubnetFile}},
		})
		r.opts.SubnetFile = "/dev/null/flannel/subnet.env"
		r.start()
		got := map[string]string{}
		for _, in := range r.node.turns() {
			if in.Lanes[node.HostLane].Applied != nil {
				got["plan"] = in.Lanes[node.HostLane].Applied.Errs[0].Error()
			}
			if in.Requested != nil {
				got["request"] = in.Requested.Err.Error()
			}
			if in.Wrote != nil {
				got["write"] = in.Wrote.Errs[0].Error()
			}
		}
		want := map[string]string{
			"plan": driver.ErrBusy.Error(), "request": lease.ErrLost.Error(),
			"write": "write /dev/null/flannel/subnet.env: stat /dev/null/flannel: not a directory",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		r.stop()
	})
}

func TestReadyIsReportedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		told := 0
		r.opts.OnReady = func() { told++ }
		r.node.react = func(turn int, _ node.Input) node.Effects {
			r.node.status.Phase = node.PhaseProgrammed
			if turn != 0 && turn != 2 {
				r.node.status.Phase = node.PhaseReady
			}
			return node.Effects{}
		}
		r.start()
		if told != 0 {
			t.Error("told before it was ready")
		}
		for range 3 {
			r.host.hints <- struct{}{}
			r.pass(pace)
		}
		if turns := len(r.node.turns()); turns != 4 {
			t.Fatalf("%d turns, want 4", turns)
		}
		if told != 1 {
			t.Errorf("told %d times, want once", told)
		}
		r.stop()
	})
}

func TestNodeEndsTheRun(t *testing.T) {
	inBubble(t, func(r *rig) {
		want := node.Exit{Status: 1, Reason: "lease lost"}
		said := node.Event{Kind: "exit", Text: "lease lost", Level: node.Error}
		r.node.react = onTurn(0,
			node.Effects{Exit: &want, Events: []node.Event{said}, Lanes: onHost(node.LaneEffects{Plan: oneOp})})
		r.start()
		if got := <-r.exit; got != want {
			t.Errorf("exit %+v, want %+v", got, want)
		}
		if diff := cmp.Diff([]node.Event{said}, r.events); diff != "" {
			t.Error(diff)
		}
		r.cancel()
	})
}

func TestSecondEffectInALanePanics(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := newAgent(t.Context(), r.opts, r.node)
		defer a.giveUp()
		a.start(node.Effects{Lanes: onHost(node.LaneEffects{Plan: oneOp})})
		defer func() {
			want := "agent: the node asks for a look of lane host while a plan of lane host is under way"
			if got := recover(); got != want {
				t.Errorf("panic %v, want %q", got, want)
			}
		}()
		a.start(node.Effects{Lanes: onHost(node.LaneEffects{Look: &node.Look{}})})
	})
}
