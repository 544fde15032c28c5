package sim

import (
	"context"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// wallTime is how long a tool of the packet filter runs, for a look or a
// transaction; drawn like the others.
const wallTime = 5 * time.Millisecond

func (p *process) alarmed() {
	p.input.FirewallHint = true
	p.poke()
}

// startFirewall begins what the node asks of the packet filter.
func (p *process) startFirewall(ready node.Ready) {
	if ready.Inspect {
		p.unlocked(p.inspect)
	}
	if ready.Chains != nil {
		p.chains = true
		p.unlocked(func() { p.applyChains(ready.Chains, nil) })
	}
}

// unlocked lets fn happen a little later, and not before a stranger lets go of
// the packet filter's lock.
func (p *process) unlocked(fn func()) {
	wait := p.daemon.host.wall.lockedFor()
	p.after(wait+p.about(wallTime), p.label.wall, func() {
		if p.daemon.host.wall.lockedFor() > 0 { // taken meanwhile
			p.unlocked(fn)
			return
		}
		fn()
	})
}

func (p *process) inspect() {
	seen, err := p.wall.Look(context.Background(), dataplane.Extent{})
	i := node.Inspected{Have: seen.State, Err: err}
	if err == nil {
		i.Facts = seen.Facts.(driver.FirewallFacts)
	}
	p.after(p.about(wallTime), p.label.wall, func() {
		if p.boundary() {
			p.input.Inspected = &i
			p.poke()
		}
	})
}

// applyChains performs what is left of a plan, transaction by transaction.
func (p *process) applyChains(plan []dataplane.Op, errs []error) {
	if !p.boundary() {
		return
	}
	some := plan[len(errs):]
	some = some[:transaction(some)]
	errs = append(errs, p.wall.Apply(context.Background(), some)...)
	if len(errs) < len(plan) {
		p.unlocked(func() { p.applyChains(plan, errs) })
		return
	}
	p.after(p.about(wallTime), p.label.wall, func() {
		if p.boundary() {
			p.chains = false
			p.input.ChainsApplied = &node.Applied{Errs: errs}
			p.finished()
		}
	})
}
