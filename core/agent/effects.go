package agent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/files"
	"github.com/flanneld/flannel/internal/storefault"
)

// slot is a place for one effect under way: the first slots are the node's
// lanes, in their order.
type slot int

const (
	storeSlot = slot(node.LaneCount) + iota
	fileSlot
	slots // the number of slots
)

// The time limits of effects. A dump of 5,000 peers takes a fraction of a
// second, so only a hanging kernel or datastore reaches these limits.
const (
	lookLimit    = 30 * time.Second
	planLimit    = time.Minute
	lockedLimit  = time.Minute // of a look at the firewall, whose lock another program may hold
	requestLimit = 10 * time.Second
	writeLimit   = 10 * time.Second // writes cannot be cancelled; Health reports a stall
)

// pagedLimit is the time limit of a look at a cloud provider's tables, which is many requests.
const pagedLimit = 2 * time.Minute

// lookLimits holds the time limits of looks that are not lookLimit.
var lookLimits = map[node.LaneID]time.Duration{node.FirewallLane: lockedLimit, node.CloudLane: pagedLimit}

// The time limits of a shutdown: first it waits for plans to finish, then for
// all effects to notice that their context has ended. Plans that the node begins
// because of the shutdown have their own limits.
const (
	planGrace = time.Second
	endGrace  = time.Second
)

// effect describes an effect under way; the zero effect is none.
type effect struct {
	what  string
	since time.Time
	limit time.Duration
}

// outcome is the result of an effect; tell adds it to the node's next input.
type outcome struct {
	slot slot
	tell func(*node.Input)
}

// start begins the effects that the node asks for.
func (a *agent) start(effects node.Effects) {
	for id, e := range effects.Lanes {
		a.startLane(node.LaneID(id), e)
	}
	a.startRequest(effects.Request)
	a.startWrites(effects.Writes)
	a.probing.start(effects.Probes)
}

// startLane begins a look or a plan in a lane.
func (a *agent) startLane(id node.LaneID, e node.LaneEffects) {
	lane := a.opts.Lanes[id]
	looking := effect{what: "look of lane " + id.String(), limit: cmp.Or(lookLimits[id], lookLimit)}
	planning := effect{what: "plan of lane " + id.String(), limit: cmp.Or(e.PlanLimit, planLimit)}
	if e.Look != nil {
		look := *e.Look
		a.launch(slot(id), a.gentle, looking, func(ctx context.Context) func(*node.Input) {
			looked := a.look(ctx, lane, look)
			news := a.keepSocket(ctx, look)
			return func(in *node.Input) {
				in.Lanes[id].Looked = &looked
				if news != nil {
					a.opts.Log(*news)
				}
			}
		})
	}
	if e.Plan != nil {
		a.launch(slot(id), a.hard, planning, func(ctx context.Context) func(*node.Input) {
			applied := node.Applied{Errs: lane.Apply(ctx, e.Plan)}
			return func(in *node.Input) { in.Lanes[id].Applied = &applied }
		})
	}
}

func (a *agent) startRequest(req *node.Request) {
	if req == nil {
		return
	}
	e := effect{what: "lease " + req.Verb.String(), limit: cmp.Or(req.Limit, requestLimit)}
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

// launch runs work in its own goroutine. The node never asks for a second
// effect in a busy slot.
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

// running lists the effects under way.
func (a *agent) running() []effect {
	var es []effect
	for _, e := range a.slots {
		if e != (effect{}) {
			es = append(es, e)
		}
	}
	return es
}

// mostSubnetFile is the size of the largest subnet file that is read, in bytes. That of a node has some hundreds.
const mostSubnetFile = 1 << 20

func (a *agent) look(ctx context.Context, lane driver.Lane, look node.Look) (l node.Looked) {
	l.Seen, l.Err = lane.Look(ctx, look.Extent)
	if l.Err == nil && look.SubnetFile {
		l.SubnetFile, _ = files.ReadRegular(a.opts.SubnetFile, mostSubnetFile) // an unreadable file counts as absent
		if a.opts.PodBridges != nil {
			l.PodBridges = a.opts.PodBridges()
		}
	}
	return l
}

// keepSocket keeps the control socket at its path with each look that reads the subnet file: a program
// that empties the directory removes both. It returns the event to log, if any.
func (a *agent) keepSocket(ctx context.Context, look node.Look) *node.Event {
	if a.opts.Socket == nil || !look.SubnetFile {
		return nil
	}
	return a.opts.Socket.Keep(ctx)
}

// view returns the store's view, and the cause if it does not follow the datastore.
func (a *agent) view() lease.View {
	view := a.opts.Store.View()
	view.Err = storefault.Mark(view.Err)
	return view
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
	case node.Move:
		done.Grant, done.Err = store.Move(ctx, r.Grant, r.Key, r.Attrs, r.TTL)
	case node.Release:
		done.Err = store.Release(ctx, r.Grant)
	default:
		panic(fmt.Sprintf("agent: unknown request %v", r.Verb))
	}
	done.Err = storefault.Mark(done.Err)
	return done
}

// end finishes or cancels the effects under way, and lets the node save the
// changes since its last write.
func (a *agent) end() {
	defer a.giveUp()
	var in node.Input
	if !a.drain(&in, planGrace) {
		return
	}
	view := a.view()
	in.View, in.Stop = &view, true
	last := a.last(in)
	a.startWrites(last.Writes)
	grace := planGrace
	for id, e := range last.Lanes {
		grace = max(grace, e.PlanLimit)
		a.startLane(node.LaneID(id), node.LaneEffects{Plan: e.Plan, PlanLimit: e.PlanLimit})
	}
	if len(a.running()) > 0 {
		in = node.Input{Stop: true}
		a.drain(&in, grace)
		a.last(in) // logs failures
	}
}

// last runs a turn of a node that is ending. The node may only ask for writes and plans.
func (a *agent) last(in node.Input) node.Effects {
	effects := a.step(in)
	for _, e := range effects.Events {
		a.opts.Log(e)
	}
	return effects
}

// drain ends the effects under way: looks and requests at once, plans and writes
// when they are done or the time of grace is up. It returns false if a write
// hangs: no further file can be written then.
func (a *agent) drain(in *node.Input, grace time.Duration) bool {
	deadline := time.NewTimer(grace)
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

// abandon stops waiting for the effects under way. Like drain, it reports
// whether files can be written.
func (a *agent) abandon() bool {
	a.opts.Log(node.Event{Kind: "abandoned", Level: node.Warning,
		Text: fmt.Sprintf("%s did not end in time", a.running()[0].what)})
	hangs := a.slots[fileSlot] != (effect{})
	a.slots = [slots]effect{}
	return !hangs
}
