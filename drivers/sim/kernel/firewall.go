package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// hostFirewall is the firewall lane of a host. Its calls take no virtual time:
// a caller that has to wait for another program's lock waits before the call.
type hostFirewall struct{ n *netfilter }

var _ driver.Lane = hostFirewall{}

// Firewall returns the firewall lane of the host.
func (h *Host) Firewall() driver.Lane { return hostFirewall{h.filter} }

func (f hostFirewall) Hints() <-chan struct{} { return f.n.hints.channel }

// Look implements [driver.Lane].
func (f hostFirewall) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	if err := f.n.host.readable(ctx); err != nil {
		return driver.Observation{}, err
	}
	return driver.Observation{State: f.n.state(), Facts: f.n.facts()}, nil
}

// AdmitsInput reports whether the packet filter lets a packet to the host pass.
func (h *Host) AdmitsInput(p dataplane.Packet) bool {
	_, drops := h.filter.dropsInput(p)
	return !drops
}

// FirewallFacts returns the facts of the firewall lane.
func (h *Host) FirewallFacts() driver.FirewallFacts { return h.filter.facts() }

func (n *netfilter) facts() driver.FirewallFacts {
	return driver.FirewallFacts{Tools: n.tools, Blocks: n.blocks()}
}

// state returns flannel's chains as they are.
func (n *netfilter) state() *dataplane.State {
	s := dataplane.NewState()
	for _, family := range cidr.Families {
		for _, flavour := range dataplane.Flavours {
			for _, hook := range dataplane.Hooks {
				key := dataplane.ChainKey{Flavour: flavour, Family: family, Hook: hook}
				if c, there := n.chain(key); there && n.tools[family].Of(flavour).Usable {
					s.AddChain(c)
				}
			}
		}
	}
	return s
}

// Apply implements [driver.Lane].
func (f hostFirewall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i := 0; i < len(ops); {
		end := i + Transaction(ops[i:])
		f.transact(ctx, ops[i:end], errs[i:end])
		i = end
	}
	if len(ops) > 0 {
		f.n.hint()
	}
	return errs
}

// Transaction returns how many of the ops, from the first, form one
// transaction.
func Transaction(ops []dataplane.Op) int {
	key := func(op dataplane.Op) (k dataplane.ChainKey) {
		if c, ok := op.Object.(dataplane.Chain); ok {
			k.Flavour, k.Family = c.Flavour, c.Family
		}
		return k
	}
	n := 1
	for n < len(ops) && key(ops[n]) == key(ops[0]) {
		n++
	}
	return n
}

// transact performs all of the ops or none.
func (f hostFirewall) transact(ctx context.Context, ops []dataplane.Op, errs []error) {
	err := ctx.Err()
	if err == nil {
		err = f.n.host.refusal()
	}
	for i, op := range ops {
		errs[i] = err
		if err == nil {
			errs[i] = f.n.apply(op)
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", op, errs[i])
		}
		f.n.host.noteOp(op, errs[i])
	}
}

func (n *netfilter) apply(op dataplane.Op) error {
	c, ok := op.Object.(dataplane.Chain)
	switch {
	case !ok:
		return fmt.Errorf("not a chain: %w", driver.ErrUnsupported)
	case !n.tools[c.Family].Of(c.Flavour).Usable:
		return fmt.Errorf("no %s: %w", c.Flavour, driver.ErrUnsupported)
	case op.Verb == dataplane.Delete:
		return n.remove(c.ChainKey)
	case c.Jump != dataplane.Placed || c.Other != "":
		return fmt.Errorf("such a chain is read, not made: %w", driver.ErrInvalid)
	}
	if _, there := n.chain(c.ChainKey); there && op.Verb == dataplane.Create {
		return driver.ErrExists
	}
	return n.put(c)
}

// hint tells the listeners that rules may have changed, unless the hint is lost.
func (n *netfilter) hint() {
	h := n.host
	if h.hintLoss > 0 && h.world.Rand(h.name+"/hints").Float64() < h.hintLoss {
		h.world.Note(h.name+": firewall hint lost", "")
		return
	}
	n.hints.tell(h.world, h.name+": firewall hint", nil)
}

// FirewallLocked returns how long another program will hold the firewall's
// lock.
func (h *Host) FirewallLocked() time.Duration {
	return max(0, h.filter.lockedUntil.Sub(h.world.Now()))
}
