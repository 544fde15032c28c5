package firewall

import (
	"context"
	"fmt"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// group holds the chains of one transaction.
type group struct {
	flavour dataplane.Flavour
	family  int
}

// Apply implements [driver.Lane].
func (f *Firewall) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for first := 0; first < len(ops); {
		last := first + 1
		for last < len(ops) && groupOf(ops[last]) == groupOf(ops[first]) {
			last++
		}
		f.applyGroup(ctx, ops[first:last], errs[first:last])
		first = last
	}
	return errs
}

func groupOf(op dataplane.Op) group {
	c, ok := op.Object.(dataplane.Chain)
	if !ok {
		return group{}
	}
	return group{c.Flavour, int(c.Family) + 1}
}

// applyGroup performs ops on chains of one flavour and family.
func (f *Firewall) applyGroup(ctx context.Context, ops []dataplane.Op, errs []error) {
	err := ctx.Err()
	if err == nil {
		err = f.look(ctx)
	}
	var wanted []dataplane.Op // the ops that are possible
	for i, op := range ops {
		if err == nil {
			errs[i] = f.refuse(op)
		}
		if errs[i] == nil {
			wanted = append(wanted, op)
		}
	}
	if err == nil && len(wanted) > 0 {
		err = f.write(ctx, wanted)
	}
	for i, op := range ops {
		if errs[i] == nil {
			errs[i] = err
		}
		if errs[i] != nil {
			errs[i] = nl.FailedAs(op, errs[i], classOf(errs[i]))
		}
	}
}

// refuse returns the reason why an op is impossible, or nil.
func (f *Firewall) refuse(op dataplane.Op) error {
	c, ok := op.Object.(dataplane.Chain)
	if !ok {
		return fmt.Errorf("object of type %T is not the packet filter's: %w", op.Object, driver.ErrUnsupported)
	}
	if tool := f.tool(c.Family, c.Flavour); !tool.Usable {
		return fmt.Errorf("%s: %w", tool.About, driver.ErrUnsupported)
	}
	there := f.there(c.ChainKey)
	switch {
	case op.Verb == dataplane.Create && there:
		return driver.ErrExists
	case op.Verb == dataplane.Delete && !there:
		return driver.ErrNotFound
	case op.Verb != dataplane.Delete && (c.Jump != dataplane.Placed || c.Other != ""):
		return fmt.Errorf("flannel reads such a chain and never makes one: %w", driver.ErrInvalid)
	}
	return nil
}

func (f *Firewall) there(k dataplane.ChainKey) bool {
	if k.Flavour == dataplane.IPTables {
		here, elsewhere := f.found(k)
		return here.any() || elsewhere.any()
	}
	for _, c := range f.seen.nft.chains {
		if c.ChainKey == k {
			return true
		}
	}
	return false
}

// write performs the ops of one group that refuse accepted.
func (f *Firewall) write(ctx context.Context, ops []dataplane.Op) error {
	wanted := map[dataplane.Hook]*dataplane.Chain{}
	for _, op := range ops {
		c := op.Object.(dataplane.Chain)
		wanted[c.Hook] = &c
		if op.Verb == dataplane.Delete {
			wanted[c.Hook] = nil
		}
	}
	k := ops[0].Object.(dataplane.Chain).ChainKey
	if k.Flavour == dataplane.IPTables {
		return f.writeIPTables(ctx, k, wanted)
	}
	var chains []dataplane.Chain
	for _, h := range dataplane.Hooks {
		if c, touched := wanted[h]; touched {
			if c != nil {
				chains = append(chains, *c)
			}
			continue
		}
		for _, c := range f.seen.nft.chains { // an untouched chain is written as it is, if it is in order
			if c.Family == k.Family && c.Hook == h && c.Jump == dataplane.Placed {
				chains = append(chains, c)
			}
		}
	}
	return f.tools.writeNFT(ctx, f.ns, k.Family, chains)
}

func (f *Firewall) writeIPTables(
	ctx context.Context, k dataplane.ChainKey, wanted map[dataplane.Hook]*dataplane.Chain,
) error {
	var mine, others []change
	for _, h := range dataplane.Hooks {
		want, touched := wanted[h]
		if !touched {
			continue
		}
		k.Hook = h
		here, elsewhere := f.found(k)
		mine = append(mine, change{want: want, found: here, hook: h})
		other := change{found: elsewhere, hook: h}
		if f.inBoth(k) {
			other.want = want
		}
		others = append(others, other)
	}
	text, err := script(mine)
	if err != nil {
		return err
	}
	if err := f.tools.iptables[k.Family].write(ctx, f.ns, f.wait, text); err != nil {
		return err
	}
	other := f.tools.other[k.Family]
	text, err = script(others)
	if err != nil || other == nil {
		return err
	}
	return other.write(ctx, f.ns, f.wait, text)
}
