package networks

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
)

// Filter lets several nodes use one packet filter, in which flannel has one chain at
// each hook (interop 7.1). A node sees and changes the rules of its own network: those
// whose source, or else destination, lies inside it. Rules about no network belong to
// all of them. Several goroutines may use a Filter at once.
type Filter struct {
	lane driver.Lane

	mu     sync.Mutex
	shares map[string]*share
}

// share is a network's part of a Filter.
type share struct {
	f        *Filter
	networks []netip.Prefix // empty until the first look
	hints    <-chan struct{}
}

var _ driver.Lane = (*share)(nil)

// NewFilter returns the packet filter of a host, which no network uses yet.
func NewFilter(lane driver.Lane) *Filter {
	return &Filter{lane: lane, shares: map[string]*share{}}
}

// Join returns the part of a network, whose node learns of changes by the given hints.
func (f *Filter) Join(name string, hints <-chan struct{}) driver.Lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shares[name] = &share{f: f, hints: hints}
	return f.shares[name]
}

// Leave ends the part of a network. Rules that it still has are as those of another daemon.
func (f *Filter) Leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.shares, name)
}

// Hints implements [driver.Lane].
func (s *share) Hints() <-chan struct{} { return s.hints }

// Look implements [driver.Lane]. The extent names the addresses of the network.
func (s *share) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.networks = extent.Networks
	seen, err := s.f.lane.Look(ctx, extent)
	if err != nil {
		return seen, err
	}
	part := dataplane.NewState()
	for _, c := range seen.State.Chains {
		if mine, ok := s.view(c); ok {
			part.AddChain(mine)
		}
	}
	seen.State = part
	return seen, nil
}

// Apply implements [driver.Lane]. It leaves the rules of the other networks in place.
func (s *share) Apply(ctx context.Context, ops []dataplane.Op) []error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	errs := make([]error, len(ops))
	seen, err := s.f.lane.Look(ctx, dataplane.Extent{Networks: s.networks})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	whole := make([]dataplane.Op, len(ops))
	for i, op := range ops {
		whole[i] = s.whole(op, seen.State)
	}
	return s.f.lane.Apply(ctx, whole)
}

// whole returns the op that does, to a whole chain, what another does to the part of
// the network.
func (s *share) whole(op dataplane.Op, have *dataplane.State) dataplane.Op {
	c, ok := op.Object.(dataplane.Chain)
	if !ok {
		return op
	}
	rest := s.rest(have.Chains[c.ChainKey])
	if len(rest) == 0 {
		return op
	}
	mine, err := c.Rules.List()
	if err != nil {
		return op // the driver refuses it, and says why
	}
	if op.Verb == dataplane.Delete {
		mine = slices.DeleteFunc(mine, func(r dataplane.Rule) bool { return !common(r) })
	}
	c.Jump, c.Other = dataplane.Placed, ""
	c.Rules = dataplane.MakeRules(inOrder(c.Hook, s.f.byNetwork(append(mine, rest...)))...)
	return dataplane.Op{Verb: dataplane.Replace, Object: c}
}

// view returns the network's part of a chain. It returns false if the chain holds
// rules of other networks alone, of which some may not have looked yet: the network has
// no chain then.
func (s *share) view(c dataplane.Chain) (dataplane.Chain, bool) {
	rules, err := c.Rules.List()
	if err != nil {
		return c, true
	}
	var part []dataplane.Rule
	var mine, others, strays int
	foreign := s.f.foreign(c.ChainKey, rules)
	for _, r := range rules {
		switch {
		case common(r):
			part = append(part, r)
		case s.owns(r):
			part = append(part, r)
			mine++
		case s.f.owned(r) || slices.Contains(foreign, r):
			others++
		default:
			strays++
		}
	}
	if mine == 0 && (others > 0 || strays > 0 && !s.f.complete()) {
		return dataplane.Chain{}, false
	}
	c.Rules = dataplane.MakeRules(part...)
	switch ordered := slices.Equal(rules, inOrder(c.Hook, rules)); {
	case c.Other == "" && !ordered:
		c.Other = "a rule that parts networks stands behind rules of others"
	case c.Other == "" && strays > 0 && s.f.complete():
		c.Other = "a rule of no network of this host"
	}
	return c, true
}

// rest returns the rules of a chain that stay when the network's own part changes:
// those of the other networks, also of other daemons, and until all networks are known, those of no
// known one.
func (s *share) rest(c dataplane.Chain) []dataplane.Rule {
	rules, err := c.Rules.List()
	if err != nil {
		return nil
	}
	foreign := s.f.foreign(c.ChainKey, rules)
	return slices.DeleteFunc(rules, func(r dataplane.Rule) bool {
		return common(r) || s.owns(r) || !s.f.owned(r) && s.f.complete() && !slices.Contains(foreign, r)
	})
}

// owns reports whether a rule is about the packets of the network.
func (s *share) owns(r dataplane.Rule) bool {
	return cidr.Within(s.networks, r.About())
}

// owned reports whether a rule belongs to one of the networks.
func (f *Filter) owned(r dataplane.Rule) bool {
	for _, s := range f.shares {
		if s.owns(r) {
			return true
		}
	}
	return false
}

// foreign returns the rules of a chain that other daemons of the host made.
func (f *Filter) foreign(key dataplane.ChainKey, rules []dataplane.Rule) []dataplane.Rule {
	var networks []netip.Prefix
	for _, name := range slices.Sorted(maps.Keys(f.shares)) {
		networks = append(networks, f.shares[name].networks...)
	}
	return firewall.Others(key, rules, networks)
}

// byNetwork returns the rules of each network one after the other, by name, and then
// the rest. A rule appears once, even if a network that has gone had the addresses that another
// one has now.
func (f *Filter) byNetwork(rules []dataplane.Rule) []dataplane.Rule {
	var sorted []dataplane.Rule
	for _, name := range slices.Sorted(maps.Keys(f.shares)) {
		var rest []dataplane.Rule
		for _, r := range rules {
			if f.shares[name].owns(r) {
				sorted = append(sorted, r)
			} else {
				rest = append(rest, r)
			}
		}
		rules = rest
	}
	return append(sorted, rules...)
}

// complete reports whether all networks have looked: a rule of a former run may belong
// to one that has not.
func (f *Filter) complete() bool {
	for _, s := range f.shares {
		if len(s.networks) == 0 {
			return false
		}
	}
	return true
}

// common reports whether a rule is about no network.
func common(r dataplane.Rule) bool { return !r.About().IsValid() }

// inOrder returns the rules in the order of a shared chain: first those that keep the
// packets of networks apart, so that no other network's rule accepts such a packet before;
// then those about no network; then the others, each in the order in which they are. At the hook
// input each network's rules are about packets of its own, in an order of their own.
func inOrder(hook dataplane.Hook, rules []dataplane.Rule) []dataplane.Rule {
	if hook == dataplane.Input {
		return rules
	}
	rank := func(r dataplane.Rule) int {
		switch {
		case r.Verdict == dataplane.Drop:
			return 0
		case common(r):
			return 1
		}
		return 2
	}
	sorted := slices.Clone(rules)
	slices.SortStableFunc(sorted, func(a, b dataplane.Rule) int { return rank(a) - rank(b) })
	return sorted
}
