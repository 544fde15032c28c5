package agent

import (
	"context"
	"reflect"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// agent is the state of a run. It belongs to the loop's goroutine; workers take
// arguments and answer through outcomes.
type agent struct {
	opts Options
	node machine

	timer    *time.Timer
	hints    [node.LaneCount]paced
	changes  paced
	outcomes chan outcome
	slots    [slots]effect // effects under way
	probing  *probing
	ready    bool // OnReady has been called
	turn     turn
	pulse    node.Pulse // as of the last turn

	// Looks and requests end with gentle; plans and writes end with hard,
	// which lasts longer: half a plan is worse than a whole one.
	gentle, hard context.Context
	giveUp       context.CancelFunc // ends hard
}

func newAgent(ctx context.Context, opts Options, m machine) *agent {
	hard, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.NewTimer(0)
	timer.Stop()
	a := &agent{
		opts: opts, node: m, timer: timer,
		changes:  paced{from: opts.Store.Changed()},
		outcomes: make(chan outcome, slots), // no worker ever waits to answer
		turn:     newTurn(),
		probing:  newProbing(opts.Probes),
		gentle:   ctx, hard: hard, giveUp: giveUp,
	}
	for id, lane := range opts.Lanes {
		if lane == nil {
			lane = missingLane{facts: missingFacts[node.LaneID(id)]}
			a.opts.Lanes[id] = lane
		}
		a.hints[id].from = lane.Hints()
	}
	opts.Health.askedBy(a.ask)
	return a
}

// loop turns until ctx ends or the node asks for the end.
func (a *agent) loop(ctx context.Context) node.Exit {
	view := a.view()
	in := node.Input{View: &view}
	for {
		effects := a.step(in)
		for _, e := range effects.Events {
			a.opts.Log(e)
		}
		if effects.Exit != nil {
			return *effects.Exit
		}
		a.start(effects)
		a.report(effects.Wake)
		in = a.await(ctx, effects.Wake)
		if ctx.Err() != nil {
			return stopped(ctx)
		}
	}
}

// step runs one turn of the node. It tells Health first, which notices a turn
// that never ends.
func (a *agent) step(in node.Input) node.Effects {
	now := time.Now()
	a.opts.Health.stepping(now)
	a.turn.take()
	defer a.turn.end()
	a.node.Step(now, in)
	effects := a.node.Ready()
	a.pulse = a.node.Pulse() // in the turn: it fills caches that answers to questions read
	return effects
}

// await blocks until a signal arrives or the time wake comes. It returns all
// signals that have arrived: together they make one step.
func (a *agent) await(ctx context.Context, wake time.Time) (in node.Input) {
	defer a.timer.Stop()
	for {
		now := time.Now()
		due := !wake.IsZero() && !now.Before(wake)
		for a.receive(now, &in, reflect.SelectCase{Dir: reflect.SelectDefault}) {
		}
		if due || in != (node.Input{}) || ctx.Err() != nil {
			return in
		}
		moments := []time.Time{wake, a.changes.next}
		for _, h := range a.hints {
			moments = append(moments, h.next)
		}
		var alarm <-chan time.Time
		if at := earliest(now, moments...); !at.IsZero() {
			a.timer.Reset(time.Until(at))
			alarm = a.timer.C
		}
		a.receive(now, &in, receiving(ctx.Done()), receiving(alarm))
	}
}

// receive waits for an outcome, a change of the store, answers to probes, a hint, or
// one of the further cases. It adds the signal to the input, or returns false for a
// further case.
func (a *agent) receive(now time.Time, in *node.Input, further ...reflect.SelectCase) bool {
	cases := []reflect.SelectCase{
		receiving(a.outcomes), receiving(a.changes.open(now)), receiving(a.probing.answered),
	}
	lanes := len(cases)
	for id := range a.hints {
		cases = append(cases, receiving(a.hints[id].open(now)))
	}
	ours := len(cases)
	i, value, _ := reflect.Select(append(cases, further...))
	switch {
	case i >= ours:
		return false
	case i == 0:
		a.finish(value.Interface().(outcome), in)
	case i == 1:
		a.changed(now, in)
	case i == 2:
		a.probing.take(in)
	default:
		a.hints[i-lanes].taken(now)
		in.Lanes[i-lanes].Hint = true
	}
	return true
}

func receiving(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// changed adds the store's view to the input. It reads the view as late as
// possible, so that one view covers all changes so far.
func (a *agent) changed(now time.Time, in *node.Input) {
	a.changes.taken(now)
	view := a.view()
	in.View = &view
}

// report passes the node's pulse to the health endpoints, OnPulse and OnReady.
func (a *agent) report(wake time.Time) {
	pulse := a.pulse
	a.opts.Health.waiting(wake, a.running(), pulse)
	if now := time.Now(); a.opts.Health.outdated(now) {
		a.ask(func(m machine) { a.opts.Health.known(m.Status(), now) })
	}
	if a.opts.OnPulse != nil {
		a.opts.OnPulse(pulse)
	}
	if pulse.Phase == node.PhaseReady && !a.ready {
		a.ready = true
		if a.opts.OnReady != nil {
			a.opts.OnReady()
		}
	}
}
