package daemon

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/probe"
	"github.com/flanneld/flannel/drivers/sim/charon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// writeTime is how long it takes to write a file, drawn between half and one
// and a half of this.
const writeTime = time.Millisecond

// process is one run of a daemon. All its events come back through arrive, so a
// halted one stands still and a dead one does nothing.
type process struct {
	daemon  *Daemon
	node    Machine
	lanes   [node.LaneCount]*processLane
	client  *store.Client
	program *kernel.Process // the process as the kernel sees it
	charon  *charon.Lane    // of the IKE daemon, which ends with the process
	store   Requester       // the client, or a wrapper of it
	clock   time.Duration   // the error of its clock
	label   processLabels

	input node.Input   // events since the last turn
	next  *world.Event // the turn that takes it in
	wake  *world.Event

	writes  bool      // writes are under way
	heardAt time.Time // by the world's clock: the node knows all older probes of other daemons

	deaf      []func() // each ends the hints of a lane
	halted    bool
	haltedAt  time.Time
	suspended bool         // its clock stands while it is halted
	restart   *world.Event // ends the halt
	inbox     []func()     // arrivals during the halt
	stopping  bool
	saved     bool // a stopping process has had its last turn
	dead      bool
}

// processLabels are made once: they name every event of the process.
type processLabels struct{ turn, wake, write, chance string }

func newProcess(d *Daemon, opts node.Options) *process {
	name := d.name()
	p := &process{
		daemon: d, clock: d.offset,
		label: processLabels{turn: name + ": turn", wake: name + ": wake", write: name + ": write", chance: "daemon/" + name},
	}
	p.client = d.store.Client(d.host.Name(),
		store.ClientOptions{Reachable: d.opts.Reachable, Clock: p.now, Servers: d.opts.Servers})
	p.program = d.host.NewProcess(d.secrets, p.arrive)
	p.charon = charon.New(d.host)
	p.charon.Break(d.noIKE)
	p.lanes = newLanes(p)
	parts := Parts{Node: node.New(opts), Client: p.client}
	for id, l := range p.lanes {
		parts.Lanes[id] = l.driver
	}
	if d.crew != nil {
		d.crew.join(p, &parts)
	}
	if d.opts.Wrap != nil {
		parts = d.opts.Wrap(parts)
	}
	p.node, p.store = parts.Node, parts.Client
	for id, l := range p.lanes {
		l.driver = parts.Lanes[id]
	}
	return p
}

// begin connects the process with its surroundings and gives it its first turn.
func (p *process) begin() {
	p.client.OnChange(p.viewChanged)
	for _, l := range p.lanes {
		p.deaf = append(p.deaf, l.onHint(func() { p.arrive(l.hinted) }))
	}
	p.viewChanged()
}

func (p *process) viewChanged() {
	view := p.store.View()
	p.input.View = &view
	p.poke()
}

// now returns the time by the process's clock.
func (p *process) now() time.Time { return p.daemon.host.World().Now().Add(p.clock) }

// poke asks for a turn, which takes in all events until then.
func (p *process) poke() {
	if !p.next.Pending() {
		p.next = p.after(0, p.label.turn, p.turn)
	}
}

// turn is one step of the node; it starts the effects.
func (p *process) turn() {
	if p.stopping {
		return
	}
	in := p.input
	p.input = node.Input{}
	p.node.Step(p.now(), in)
	effects := p.node.Ready()
	for _, e := range effects.Events {
		p.daemon.note(e.Kind, e.Whole())
	}
	if effects.Exit != nil {
		p.daemon.ended(*effects.Exit)
		return
	}
	p.start(effects)
	if c := p.daemon.crew; c != nil {
		c.pulsed(p.daemon, p.node.Pulse())
	}
	p.wake.Cancel()
	if !effects.Wake.IsZero() {
		p.wake = p.after(effects.Wake.Sub(p.now()), p.label.wake, p.turn)
	}
}

func (p *process) start(effects node.Effects) {
	for id, e := range effects.Lanes {
		p.lanes[id].start(e)
	}
	if effects.Writes != nil {
		p.writes = true
		p.after(p.about(p.label.chance, writeTime), p.label.write, func() { p.write(effects.Writes, nil) })
	}
	for _, r := range effects.Probes {
		p.program.Probe(r, p.probed)
	}
	if effects.Request != nil && p.boundary() {
		p.store.Do(*effects.Request, p.requested)
	}
}

// write replaces the rest of a set of files, one at a time.
func (p *process) write(writes []node.Write, errs []error) {
	if !p.boundary() {
		return
	}
	errs = append(errs, p.daemon.replace(writes[len(errs)]))
	if p.dead { // the machine went down during the write
		return
	}
	if len(errs) < len(writes) {
		p.after(p.about(p.label.chance, writeTime), p.label.write, func() { p.write(writes, errs) })
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

// probed passes on the result of a probe, with the probes of other daemons that have arrived
// until then.
func (p *process) probed(a probe.Answer) {
	p.arrive(func() {
		if p.input.Probed == nil {
			p.input.Probed = &node.Probed{Listens: true}
		}
		in := p.input.Probed
		in.Answers = append(in.Answers, a)
		for _, h := range p.program.Heard(p.heardAt) {
			in.Heard = append(in.Heard, probe.Heard{From: h.From, At: h.At.Add(p.clock)})
		}
		p.heardAt = p.daemon.host.World().Now()
		p.poke()
	})
}

// finished runs after an effect that a stop waits for.
func (p *process) finished() {
	if p.stopping {
		p.stopIfIdle()
		return
	}
	p.poke()
}

// stopIfIdle ends the process once no effect that a stop waits for is under
// way, and the files are up to date.
func (p *process) stopIfIdle() {
	if !p.stopping || p.plans() || p.writes {
		return
	}
	if p.saved || !p.save() {
		p.daemon.ended(node.Exit{Status: 0, Reason: "shutting down"})
	}
}

// plans reports whether a plan is under way in any lane.
func (p *process) plans() bool {
	return slices.ContainsFunc(p.lanes[:], func(l *processLane) bool { return l.plans })
}

// save is the last turn of a node. It reports whether the node has files to
// write or plans to perform.
func (p *process) save() bool {
	p.saved = true
	in, view := p.input, p.store.View()
	in.View, in.Stop = &view, true
	p.node.Step(p.now(), in)
	effects := p.node.Ready()
	for _, e := range effects.Events {
		p.daemon.note(e.Kind, e.Whole())
	}
	p.start(node.Effects{Writes: effects.Writes, Lanes: effects.Lanes})
	return p.writes || p.plans()
}

// boundary counts a boundary, and reports whether the process survives it.
func (p *process) boundary() bool {
	d := p.daemon
	d.boundaries++
	if d.boundaries == d.killAt {
		d.note("boundary", fmt.Sprint(d.boundaries))
		d.Kill()
	}
	return !p.dead
}

// about draws a duration around the typical one, from a stream of random numbers.
func (p *process) about(chance string, typical time.Duration) time.Duration {
	return typical/2 + world.UpTo(p.daemon.host.World().Rand(chance), typical)
}

func (p *process) after(d time.Duration, label string, fn func()) *world.Event {
	return p.daemon.host.World().After(d, label, func() { p.arrive(fn) })
}

func (p *process) arrive(fn func()) {
	if p.dead {
		return
	}
	if p.halted {
		p.inbox = append(p.inbox, fn)
		return
	}
	fn()
}

func (p *process) halt() {
	p.halted, p.haltedAt = true, p.daemon.host.World().Now()
	p.client.Freeze(true)
}

func (p *process) resume() {
	if p.dead {
		return
	}
	p.halted = false
	if p.suspended { // the clock stood while the process was halted
		p.clock -= p.daemon.host.World().Now().Sub(p.haltedAt)
	}
	inbox := p.inbox
	p.inbox = nil
	p.client.Freeze(false)
	for _, fn := range inbox {
		p.arrive(fn)
	}
}

// die releases everything. Requests on their way to the store still get there.
func (p *process) die() {
	p.dead = true
	p.program.End()
	p.charon.Crash()
	p.client.Close()
	p.next.Cancel()
	p.wake.Cancel()
	for _, end := range p.deaf {
		end()
	}
}
