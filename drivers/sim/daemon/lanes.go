package daemon

import (
	"context"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// laneTimes holds the duration of the calls to a lane's driver. Each call takes
// between half and one and a half of it.
type laneTimes struct{ look, plan, op time.Duration }

var (
	hostTimes    = laneTimes{look: 200 * time.Microsecond, plan: 100 * time.Microsecond, op: 10 * time.Microsecond}
	commandTimes = laneTimes{look: 20 * time.Microsecond, plan: 100 * time.Microsecond, op: 3 * time.Millisecond}
	toolTimes    = laneTimes{ // a call runs a tool of the firewall
		look: 5 * time.Millisecond,
		plan: 5 * time.Millisecond,
		op:   5 * time.Millisecond,
	}
)

// ikeTimes holds the duration of calls to the IKE daemon.
var ikeTimes = laneTimes{look: 2 * time.Millisecond, plan: 2 * time.Millisecond, op: 2 * time.Millisecond}

// cloudTimes holds the duration of requests to a cloud provider.
var cloudTimes = laneTimes{look: 100 * time.Millisecond, plan: 200 * time.Millisecond, op: 200 * time.Millisecond}

// processLane performs the node's looks and plans in one lane.
type processLane struct {
	p      *process
	id     node.LaneID
	driver driver.Lane
	times  laneTimes

	lookLabel, planLabel string // of the events
	chance               string // the stream of random numbers for its times

	// onHint calls a function at each hint, until the function that it returns
	// is called.
	onHint func(func()) (end func())
	// step returns how many of the ops, from the first, are applied without a
	// pause.
	step func([]dataplane.Op) int
	// slow returns how much longer an op takes; nil: no longer.
	slow func(dataplane.Op) time.Duration
	// slowLook returns how much longer a look takes; nil: no longer.
	slowLook func() time.Duration
	// locked returns how long another program holds the lane's lock; nil: it
	// has none.
	locked func() time.Duration
	// plans is true while a plan is under way.
	plans bool
}

// newLanes returns the lanes of a process, before anything wraps their drivers.
func newLanes(p *process) [node.LaneCount]*processLane {
	d := p.daemon
	name := d.name()
	instance := d.opts.Cloud.Lane(d.host.Name())
	return [node.LaneCount]*processLane{
		node.HostLane: {
			p: p, id: node.HostLane, driver: p.program.Driver(), times: hostTimes,
			lookLabel: name + ": look", planLabel: name + ": plan", chance: "daemon/" + name,
			onHint: p.program.OnHint,
			step: func(ops []dataplane.Op) int {
				if d.opts.OneByOne {
					return min(1, len(ops))
				}
				return len(ops)
			},
		},
		node.FirewallLane: {
			p: p, id: node.FirewallLane, driver: d.host.Firewall(), times: toolTimes,
			lookLabel: name + ": firewall", planLabel: name + ": firewall", chance: "daemon/" + name,
			onHint: d.host.OnFirewallHint,
			step:   kernel.Transaction,
			locked: d.host.FirewallLocked,
		},
		node.CommandsLane: {
			p: p, id: node.CommandsLane, driver: newCommandLane(p, d.commands), times: commandTimes,
			lookLabel: name + ": record", planLabel: name + ": command", chance: "commands/" + name,
			onHint: func(func()) (end func()) { return func() {} },
			step:   func(ops []dataplane.Op) int { return min(1, len(ops)) },
			slow:   d.commands.delay,
		},
		node.IKELane: {
			p: p, id: node.IKELane, driver: p.charon, times: ikeTimes,
			lookLabel: name + ": ike", planLabel: name + ": ike", chance: "ike/" + name,
			onHint: p.charon.OnHint,
			step:   func(ops []dataplane.Op) int { return min(1, len(ops)) },
		},
		node.CloudLane: {
			p: p, id: node.CloudLane, driver: instance, times: cloudTimes,
			lookLabel: name + ": cloud", planLabel: name + ": cloud", chance: "cloud/" + name,
			onHint:   func(func()) (end func()) { return func() {} },
			step:     func(ops []dataplane.Op) int { return min(1, len(ops)) },
			slow:     func(dataplane.Op) time.Duration { return instance.Slower() },
			slowLook: instance.Slower,
		},
	}
}

func (l *processLane) hinted() {
	l.p.input.Lanes[l.id].Hint = true
	l.p.poke()
}

// start begins a look or a plan.
func (l *processLane) start(e node.LaneEffects) {
	if e.Look != nil {
		look := *e.Look
		typical := l.times.look
		if l.slowLook != nil {
			typical += l.slowLook()
		}
		l.unlocked(typical, l.lookLabel, func() { l.look(look) })
	}
	if e.Plan != nil {
		l.plans = true
		l.unlocked(l.times.plan+l.delay(e.Plan), l.planLabel, func() { l.apply(e.Plan, nil) })
	}
}

// delay returns how much longer the first of the ops takes.
func (l *processLane) delay(ops []dataplane.Op) time.Duration {
	if l.slow == nil || len(ops) == 0 {
		return 0
	}
	return l.slow(ops[0])
}

// unlocked calls fn a little later, and not before other programs release the
// lane's lock.
func (l *processLane) unlocked(typical time.Duration, label string, fn func()) {
	if l.locked == nil {
		l.p.after(l.about(typical), label, fn)
		return
	}
	l.p.after(l.locked()+l.about(typical), label, func() {
		if l.locked() > 0 { // locked again meanwhile
			l.unlocked(typical, label, fn)
			return
		}
		fn()
	})
}

// about draws a duration around the typical one.
func (l *processLane) about(typical time.Duration) time.Duration { return l.p.about(l.chance, typical) }

// look reads the lane's part of the host, which may have changed by the time
// the node hears of it.
func (l *processLane) look(look node.Look) {
	var looked node.Looked
	looked.Seen, looked.Err = l.driver.Look(context.Background(), look.Extent)
	if look.SubnetFile {
		looked.SubnetFile = l.p.daemon.files.data[node.SubnetFile].Data
	}
	l.p.after(l.about(l.times.look), l.lookLabel, func() {
		if l.p.boundary() {
			l.p.input.Lanes[l.id].Looked = &looked
			l.p.poke()
		}
	})
}

// apply performs the rest of a plan, one step at a time.
func (l *processLane) apply(plan []dataplane.Op, errs []error) {
	if !l.p.boundary() {
		return
	}
	some := plan[len(errs):]
	some = some[:l.step(some)]
	errs = append(errs, l.driver.Apply(context.Background(), some)...)
	if len(errs) < len(plan) {
		l.unlocked(l.times.op+l.delay(plan[len(errs):]), l.planLabel, func() { l.apply(plan, errs) })
		return
	}
	l.p.after(l.about(l.times.plan), l.planLabel, func() {
		if l.p.boundary() {
			l.plans = false
			l.p.input.Lanes[l.id].Applied = &node.Applied{Errs: errs}
			l.p.finished()
		}
	})
}
