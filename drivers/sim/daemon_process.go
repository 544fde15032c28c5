package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// How long things take; each is drawn between half and one and a half of this.
const (
	lookTime  = 200 * time.Microsecond
	planTime  = 100 * time.Microsecond
	opTime    = 10 * time.Microsecond
	writeTime = time.Millisecond
)

// process is one run of a daemon. Whatever it waits for comes back through
// arrive, so that a halted one stands still and a dead one does nothing.
type process struct {
	daemon *Daemon
	node   Machine
	driver driver.Lane
	wall   driver.Lane
	client *StoreClient
	paths  *paths        // the packets that it carries itself
	store  Requester     // the client, or something around it
	clock  time.Duration // what its clock is off by
	label  processLabels

	input node.Input // what happened since the last turn
	next  *Event     // the turn that takes it in
	wake  *Event

	plans  bool // a plan is under way
	chains bool // a change of the packet filter is under way
	writes bool // writes are under way

	deaf      func() // hears no hints any more
	halted    bool
	haltedAt  time.Time
	suspended bool     // its clock stands as long as it is halted
	restart   *Event   // what ends the halt
	inbox     []func() // what arrived while halted
	stopping  bool
	saved     bool // the last turn of a process that is stopping has been
	dead      bool
}

// processLabels are made once: they name every event of the process.
type processLabels struct{ turn, wake, look, plan, write, wall string }

func newProcess(d *Daemon, opts node.Options) *process {
	name := d.host.name
	p := &process{
		daemon: d, clock: d.offset,
		label: processLabels{turn: name + ": turn", wake: name + ": wake", look: name + ": look", plan: name + ": plan", write: name + ": write", wall: name + ": firewall"},
	}
	p.client = d.store.Client(name, StoreClientOptions{Reachable: d.opts.Reachable, Clock: p.now})
	p.paths = newPaths(d.host.stack)
	p.paths.attend = p.arrive
	parts := Parts{Node: node.New(opts), Driver: hostDriver{d.host, p.paths}, Wall: d.host.Firewall(), Client: p.client}
	if d.opts.Wrap != nil {
		parts = d.opts.Wrap(parts)
	}
	p.node, p.driver, p.wall, p.store = parts.Node, parts.Driver, parts.Wall, parts.Client
	return p
}

// begin connects the process with its surroundings and gives it its first turn.
func (p *process) begin() {
	p.client.OnChange(p.viewChanged)
	host := p.daemon.host.OnHint(func() { p.arrive(p.hinted) })
	wall := p.daemon.host.OnFirewallHint(func() { p.arrive(p.alarmed) })
	p.deaf = func() { host(); wall() }
	p.viewChanged()
}

func (p *process) viewChanged() {
	view := p.store.View()
	p.input.View = &view
	p.poke()
}

func (p *process) hinted() {
	p.input.Hint = true
	p.poke()
}

// now is what the process takes for the time.
func (p *process) now() time.Time { return p.daemon.host.world.Now().Add(p.clock) }

// poke asks for a turn. All that happens until then is one step.
func (p *process) poke() {
	if !p.next.Pending() {
		p.next = p.after(0, p.label.turn, p.turn)
	}
}

// turn is one step of the node, and the beginning of all that it asks for.
func (p *process) turn() {
	if p.stopping {
		return
	}
	in := p.input
	p.input = node.Input{}
	p.node.Step(p.now(), in)
	ready := p.node.Ready()
	for _, e := range ready.Events {
		p.daemon.note(e.Kind, e.Text)
	}
	if ready.Exit != nil {
		p.daemon.ended(*ready.Exit)
		return
	}
	p.start(ready)
	p.wake.Cancel()
	if !ready.Wake.IsZero() {
		p.wake = p.after(ready.Wake.Sub(p.now()), p.label.wake, p.turn)
	}
}

func (p *process) start(ready node.Ready) {
	if ready.Look != nil {
		extent := *ready.Look
		p.after(p.about(lookTime), p.label.look, func() { p.look(extent) })
	}
	if ready.Plan != nil {
		p.plans = true
		p.after(p.about(planTime), p.label.plan, func() { p.apply(ready.Plan, nil) })
	}
	p.startFirewall(ready)
	if ready.Writes != nil {
		p.writes = true
		p.after(p.about(writeTime), p.label.write, func() { p.write(ready.Writes, nil) })
	}
	if ready.Request != nil && p.boundary() {
		p.store.Do(*ready.Request, p.requested)
	}
}

// look reads the host. What it saw may be old by the time the node hears of it.
func (p *process) look(extent dataplane.Extent) {
	seen, err := p.driver.Look(context.Background(), extent)
	l := node.Looked{SubnetFile: p.daemon.files.data[node.SubnetFile].Data, Have: seen.State, Err: err}
	if err == nil {
		l.Facts = seen.Facts.(driver.HostFacts)
	}
	p.after(p.about(lookTime), p.label.look, func() {
		if p.boundary() {
			p.input.Looked = &l
			p.poke()
		}
	})
}

// apply performs what is left of a plan, all of it or the next op.
func (p *process) apply(plan []dataplane.Op, errs []error) {
	if !p.boundary() {
		return
	}
	some := plan[len(errs):]
	if p.daemon.opts.OneByOne && len(some) > 0 {
		some = some[:1]
	}
	errs = append(errs, p.driver.Apply(context.Background(), some)...)
	if len(errs) < len(plan) {
		p.after(p.about(opTime), p.label.plan, func() { p.apply(plan, errs) })
		return
	}
	p.after(p.about(planTime), p.label.plan, func() {
		if p.boundary() {
			p.plans = false
			p.input.Applied = &node.Applied{Errs: errs}
			p.finished()
		}
	})
}

// write replaces what is left of a set of files, one at a time.
func (p *process) write(writes []node.Write, errs []error) {
	if !p.boundary() {
		return
	}
	errs = append(errs, p.daemon.replace(writes[len(errs)]))
	if p.dead { // the machine went down on it
		return
	}
	if len(errs) < len(writes) {
		p.after(p.about(writeTime), p.label.write, func() { p.write(writes, errs) })
		return
	}
	p.after(0, p.label.write, func() {
		if p.boundary() {
			p.writes = false
			p.input.Wrote = &node.Wrote{Errs: errs}
			p.finished()
		}
	})
}

func (p *process) requested(r node.Requested) {
	p.arrive(func() {
		if p.boundary() {
			p.input.Requested = &r
			p.poke()
		}
	})
}

// finished follows the end of an effect that a stop waits for.
func (p *process) finished() {
	if p.stopping {
		p.stopIfIdle()
		return
	}
	p.poke()
}

// stopIfIdle ends the process once nothing is under way that a stop waits for,
// and what is not in the files yet has been written.
func (p *process) stopIfIdle() {
	switch {
	case !p.stopping || p.plans || p.chains || p.writes:
	case p.saved || !p.save():
		p.daemon.ended(node.Exit{Status: 0, Reason: "shutting down"})
	}
}

// save is the last turn of a node. It reports whether there is something to write.
func (p *process) save() bool {
	p.saved = true
	in, view := p.input, p.store.View()
	in.View, in.Stop = &view, true
	p.node.Step(p.now(), in)
	ready := p.node.Ready()
	for _, e := range ready.Events {
		p.daemon.note(e.Kind, e.Text)
	}
	p.start(node.Ready{Writes: ready.Writes})
	return p.writes
}

// boundary counts, and reports whether the process outlives it.
func (p *process) boundary() bool {
	d := p.daemon
	if d.boundaries++; d.boundaries == d.killAt {
		d.note("boundary", fmt.Sprint(d.boundaries))
		d.Kill()
	}
	return !p.dead
}

// about draws a duration around the typical one.
func (p *process) about(typical time.Duration) time.Duration {
	return typical/2 + upTo(p.daemon.host.world.Rand("daemon/"+p.daemon.host.name), typical)
}

func (p *process) after(d time.Duration, label string, fn func()) *Event {
	return p.daemon.host.world.After(d, label, func() { p.arrive(fn) })
}

func (p *process) arrive(fn func()) {
	switch {
	case p.dead:
	case p.halted:
		p.inbox = append(p.inbox, fn)
	default:
		fn()
	}
}

func (p *process) halt() {
	p.halted, p.haltedAt = true, p.daemon.host.world.Now()
	p.client.Freeze(true)
}

func (p *process) resume() {
	if p.dead {
		return
	}
	p.halted = false
	if p.suspended { // as long as it was halted, nobody read its clock
		p.clock -= p.daemon.host.world.Now().Sub(p.haltedAt)
	}
	inbox := p.inbox
	p.inbox = nil
	p.client.Freeze(false)
	for _, fn := range inbox {
		p.arrive(fn)
	}
}

// die lets go of everything. What is on its way to the store gets there.
func (p *process) die() {
	p.dead = true
	p.paths.endAll()
	p.daemon.host.changed++ // a device may have lost its carrier
	p.client.Close()
	p.next.Cancel()
	p.wake.Cancel()
	p.deaf()
}
