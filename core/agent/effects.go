package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// slot is a place for one effect under way: the first slots are the node's
// lanes, in their order.
type slot int

const (
	storeSlot = slot(node.LaneCount) + iota
	fileSlot
	slots // how many there are
)

// How long an effect may take before its context ends. A dump of 5,000 peers
// takes a fraction of a second, so these are for a world that hangs.
const (
	lookLimit    = 30 * time.Second
	planLimit    = time.Minute
	lockedLimit  = time.Minute // of the firewall, whose lock another program may hold
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
	slot slot
	tell func(*node.Input)
}

// start begins what the node asks for.
func (a *agent) start(effects node.Effects) {
	for id, e := range effects.Lanes {
		a.startLane(node.LaneID(id), e)
	}
	a.startRequest(effects.Request)
	a.startWrites(effects.Writes)
}

// startLane begins a look or a plan in a lane.
func (a *agent) startLane(id node.LaneID, e node.LaneEffects) {
	lane, of := a.opts.Lanes[id], ""
	lookFor, planFor := lookLimit, planLimit
	if id == node.FirewallLane {
		of, lookFor, planFor = " of the firewall", lockedLimit, lockedLimit
	}
	if e.Look != nil {
		look := *e.Look
		a.launch(slot(id), a.gentle, effect{what: "look" + of, limit: lookFor}, func(ctx context.Context) func(*node.Input) {
			looked := a.look(ctx, lane, look)
			return func(in *node.Input) { in.Lanes[id].Looked = &looked }
		})
	}
	if e.Plan != nil {
		a.launch(slot(id), a.hard, effect{what: "plan" + of, limit: planFor}, func(ctx context.Context) func(*node.Input) {
			applied := node.Applied{Errs: lane.Apply(ctx, e.Plan)}
			return func(in *node.Input) { in.Lanes[id].Applied = &applied }
		})
	}
}

func (a *agent) startRequest(req *node.Request) {
	if req == nil {
		return
	}
	e := effect{what: "lease " + req.Verb.String(), limit: requestLimit}
	a.launch(storeSlot, a.gentle, e, func(ctx context.Context) func(*node.Input) {
		requested := ask(ctx, a.opts.Store, *req)
		return func(in *node.Input) { in.Requested = &requested }
	})
}

func (a *agent) startWrites(writes []node.Write) {
	if writes == nil {
		return
	}
	a.launch(fileSlot, a.hard, effect{what: "write", limit: writeLimit}, func(context.Context) func(*node.Input) {
		wrote := a.write(writes)
		return func(in *node.Input) { in.Wrote = &wrote }
	})
}

// launch runs work in a goroutine of its own. The node promises never to ask for
// a second effect in a busy slot.
func (a *agent) launch(l slot, ctx context.Context, e effect, work func(context.Context) func(*node.Input)) {
	if old := a.slots[l]; old != (effect{}) {
		panic(fmt.Sprintf("agent: the node asks for a %s while a %s is under way", e.what, old.what))
	}
	e.since = time.Now()
	a.slots[l] = e
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	go func() {
		defer cancel()
		a.outcomes <- outcome{l, work(ctx)}
	}()
}

func (a *agent) finish(o outcome, in *node.Input) {
	a.slots[o.slot] = effect{}
	o.tell(in)
}

// running lists what is under way.
func (a *agent) running() []effect {
	var es []effect
	for _, e := range a.slots {
		if e != (effect{}) {
			es = append(es, e)
		}
	}
	return es
}

func (a *agent) look(ctx context.Context, lane driver.Lane, look node.Look) (l node.Looked) {
	l.Seen, l.Err = lane.Look(ctx, look.Extent)
	if l.Err == nil && look.SubnetFile {
		l.SubnetFile, _ = os.ReadFile(a.opts.SubnetFile) // an unreadable file is as good as none
	}
	return l
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
		a.startWrites(writes)
		a.drain(&in)
		a.last(in) // which logs what has failed
	}
}

// last is a turn of a node that is ending: all that it may still do is write.
func (a *agent) last(in node.Input) []node.Write {
	effects := a.step(in)
	for _, e := range effects.Events {
		a.opts.Log(e)
	}
	return effects.Writes
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
	hangs := a.slots[fileSlot] != (effect{})
	a.slots = [slots]effect{}
	return !hangs
}
