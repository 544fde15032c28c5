package agent

import (
	"context"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// agent is a run. All of it belongs to the loop's goroutine; workers get what
// they need as arguments and answer through outcomes.
type agent struct {
	opts Options
	node machine

	timer    *time.Timer
	hints    paced
	alarms   paced // the firewall's hints
	changes  paced
	outcomes chan outcome
	lanes    [lanes]effect // what is under way
	ready    bool          // OnReady has been called

	// Looks and requests end with the first, changes of the host with the
	// second: a plan is better finished than cut in half.
	gentle, hard context.Context
	giveUp       context.CancelFunc // ends hard
}

func newAgent(ctx context.Context, opts Options, m machine) *agent {
	hard, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	timer := time.NewTimer(0)
	timer.Stop()
	return &agent{
		opts: opts, node: m, timer: timer,
		hints:    paced{from: opts.Driver.Hints()},
		alarms:   paced{from: opts.Firewall.Hints()},
		changes:  paced{from: opts.Store.Changed()},
		outcomes: make(chan outcome, lanes), // no worker ever waits to answer
		gentle:   ctx, hard: hard, giveUp: giveUp,
	}
}

// loop turns until ctx ends or the node asks for the end.
func (a *agent) loop(ctx context.Context) node.Exit {
	view := a.opts.Store.View()
	in := node.Input{View: &view}
	for {
		ready := a.step(in)
		for _, e := range ready.Events {
			a.opts.Log(e)
		}
		if ready.Exit != nil {
			return *ready.Exit
		}
		a.start(ready)
		a.report(ready.Wake)
		if in = a.await(ctx, ready.Wake); ctx.Err() != nil {
			return stopped(ctx)
		}
	}
}

// step is one turn of the node. The report around it lets a node that never
// returns be noticed.
func (a *agent) step(in node.Input) node.Ready {
	now := time.Now()
	a.opts.Health.stepping(now)
	a.node.Step(now, in)
	return a.node.Ready()
}

// await blocks until something happened or time has come, and returns all
// that happened: what arrives together is one step.
func (a *agent) await(ctx context.Context, wake time.Time) (in node.Input) {
	defer a.timer.Stop()
	for {
		now := time.Now()
		due := !wake.IsZero() && !now.Before(wake)
		if a.gather(now, &in); due || in != (node.Input{}) || ctx.Err() != nil {
			return in
		}
		var alarm <-chan time.Time
		if at := earliest(now, wake, a.hints.next, a.alarms.next, a.changes.next); !at.IsZero() {
			a.timer.Reset(time.Until(at))
			alarm = a.timer.C
		}
		select {
		case <-ctx.Done():
		case <-alarm:
		case <-a.hints.open(now):
			a.hinted(now, &in)
		case <-a.alarms.open(now):
			a.alarmed(now, &in)
		case <-a.changes.open(now):
			a.changed(now, &in)
		case o := <-a.outcomes:
			a.finish(o, &in)
		}
	}
}

// gather takes what is there without waiting for more.
func (a *agent) gather(now time.Time, in *node.Input) {
	for range lanes {
		select {
		case o := <-a.outcomes:
			a.finish(o, in)
		default:
		}
	}
	select {
	case <-a.hints.open(now):
		a.hinted(now, in)
	default:
	}
	select {
	case <-a.alarms.open(now):
		a.alarmed(now, in)
	default:
	}
	select {
	case <-a.changes.open(now):
		a.changed(now, in)
	default:
	}
}

func (a *agent) hinted(now time.Time, in *node.Input) {
	a.hints.taken(now)
	in.Hint = true
}

func (a *agent) alarmed(now time.Time, in *node.Input) {
	a.alarms.taken(now)
	in.FirewallHint = true
}

// changed takes the view as late as possible: it stands for all changes so far.
func (a *agent) changed(now time.Time, in *node.Input) {
	a.changes.taken(now)
	view := a.opts.Store.View()
	in.View = &view
}

// report publishes the node's status: to the health endpoints, OnStatus and OnReady.
func (a *agent) report(wake time.Time) {
	status := a.node.Status()
	a.opts.Health.waiting(wake, a.running(), status)
	if a.opts.OnStatus != nil {
		a.opts.OnStatus(status)
	}
	if status.Ready && !a.ready {
		a.ready = true
		if a.opts.OnReady != nil {
			a.opts.OnReady()
		}
	}
}
