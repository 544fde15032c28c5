package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// lane is a kind of effects of which at most one is under way.
type lane int

const (
	hostLane lane = iota // a look or a plan
	wallLane             // a look at the packet filter, or a change of it
	storeLane
	fileLane
	lanes // how many there are
)

// How long an effect may take before its context ends. A dump of 5,000 peers
// takes a fraction of a second, so these are for a world that hangs.
const (
	lookLimit    = 30 * time.Second
	planLimit    = time.Minute
	wallLimit    = time.Minute // most of it may be spent waiting for somebody else's lock
	requestLimit = 10 * time.Second
	writeLimit   = 10 * time.Second // files know no contexts; only a stall is noticed
)

// How long a shutdown waits for what is under way: first for plans to finish,
// then for everything to notice that its context has ended.
const (
	planGrace = time.Second
	endGrace  = time.Second
)

// effect is something under way; the zero effect is none.
type effect struct {
	what  string
	since time.Time
	limit time.Duration
}

// outcome is the end of an effect: what to tell the node.
type outcome struct {
	lane lane
	tell func(*node.Input)
}

// start begins what the node asks for.
func (a *agent) start(ready node.Ready) {
	if ready.Look != nil {
		extent := *ready.Look
		a.launch(hostLane, a.gentle, effect{what: "look", limit: lookLimit}, func(ctx context.Context) func(*node.Input) {
			looked := a.look(ctx, extent)
			return func(in *node.Input) { in.Looked = &looked }
		})
	}
	if ready.Plan != nil {
		plan := ready.Plan
		a.launch(hostLane, a.hard, effect{what: "plan", limit: planLimit}, func(ctx context.Context) func(*node.Input) {
			applied := node.Applied{Errs: a.opts.Driver.Apply(ctx, plan)}
			return func(in *node.Input) { in.Applied = &applied }
		})
	}
	a.startFirewall(ready)
	if ready.Request != nil {
		req := *ready.Request
		a.launch(storeLane, a.gentle, effect{what: "lease " + req.Verb.String(), limit: requestLimit}, func(ctx context.Context) func(*node.Input) {
			requested := ask(ctx, a.opts.Store, req)
			return func(in *node.Input) { in.Requested = &requested }
		})
	}
	if ready.Writes != nil {
		writes := ready.Writes
		a.launch(fileLane, a.hard, effect{what: "write", limit: writeLimit}, func(context.Context) func(*node.Input) {
			wrote := a.write(writes)
			return func(in *node.Input) { in.Wrote = &wrote }
		})
	}
}

// launch runs work in a goroutine of its own. A second effect in a busy lane
// is a broken promise of the node's.
func (a *agent) launch(l lane, ctx context.Context, e effect, work func(context.Context) func(*node.Input)) {
	if old := a.lanes[l]; old != (effect{}) {
		panic(fmt.Sprintf("agent: the node asks for a %s while a %s is under way", e.what, old.what))
	}
	e.since = time.Now()
	a.lanes[l] = e
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	go func() {
		defer cancel()
		a.outcomes <- outcome{l, work(ctx)}
	}()
}

func (a *agent) finish(o outcome, in *node.Input) {
	a.lanes[o.lane] = effect{}
	o.tell(in)
}

// running lists what is under way.
func (a *agent) running() []effect {
	var es []effect
	for _, e := range a.lanes {
		if e != (effect{}) {
			es = append(es, e)
		}
	}
	return es
}

func (a *agent) look(ctx context.Context, extent dataplane.Extent) node.Looked {
	seen, err := a.opts.Driver.Look(ctx, extent)
	if err != nil {
		return node.Looked{Err: err}
	}
	text, _ := os.ReadFile(a.opts.SubnetFile) // unreadable is as good as gone
	return node.Looked{SubnetFile: text, Facts: seen.Facts.(driver.HostFacts), Have: seen.State}
}

func ask(ctx context.Context, store lease.Store, r node.Request) node.Requested {
	var done node.Requested
	switch r.Verb {
	case node.Create:
		done.Grant, done.Err = store.Create(ctx, r.Key, r.Attrs, r.TTL)
	case node.Renew:
		done.Grant, done.Err = store.Renew(ctx, r.Grant)
	case node.Update:
		done.Grant, done.Err = store.Update(ctx, r.Grant, r.Attrs, r.TTL)
	case node.Release:
		done.Err = store.Release(ctx, r.Grant)
	default:
		panic(fmt.Sprintf("agent: unknown request %v", r.Verb))
	}
	return done
}

// end brings what is under way to an end, and lets the node save what it has
// learnt since it last did.
func (a *agent) end() {
	defer a.giveUp()
	var in node.Input
	if !a.drain(&in) {
		return
	}
	view := a.opts.Store.View()
	in.View, in.Stop = &view, true
	if writes := a.last(in); writes != nil {
		in = node.Input{Stop: true}
		a.start(node.Ready{Writes: writes})
		a.drain(&in)
		a.last(in) // which logs what has failed
	}
}

// last is a turn of a node that is ending: all that it may still do is write.
func (a *agent) last(in node.Input) []node.Write {
	ready := a.step(in)
	for _, e := range ready.Events {
		a.opts.Log(e)
	}
	return ready.Writes
}

// drain ends what is under way: looks and requests at once, a plan or a write
// when it is done or has had its time. It reports whether files can be written:
// if the last write hangs, so would another.
func (a *agent) drain(in *node.Input) bool {
	deadline := time.NewTimer(planGrace)
	defer deadline.Stop()
	for insist := true; len(a.running()) > 0; {
		select {
		case o := <-a.outcomes:
			a.finish(o, in)
		case <-deadline.C:
			if !insist {
				return a.abandon()
			}
			insist = false
			a.giveUp()
			deadline.Reset(endGrace)
		}
	}
	return true
}

// abandon waits no longer for what is under way. Like drain, it reports
// whether files can be written.
func (a *agent) abandon() bool {
	a.opts.Log(node.Event{Kind: "abandoned", Level: node.Warning,
		Text: fmt.Sprintf("%s did not end in time", a.running()[0].what)})
	hangs := a.lanes[fileLane] != (effect{})
	a.lanes = [lanes]effect{}
	return !hangs
}
