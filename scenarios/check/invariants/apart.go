package invariants

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Apart watches hosts that run several networks: no network changes an object of another one. A
// device or route belongs to the network that made it, until that one deletes it or it has gone;
// a firewall rule belongs to the network whose addresses it names first.
//
// The methods of a nil Apart do nothing.
type Apart struct {
	world *world.World
	hosts map[string]*shared
	all   []*Invariants // of each network

	writes int // of configs
}

// shared holds the objects of one host, by the network that made them.
type shared struct {
	*kernel.Host
	links  map[string]string
	routes map[dataplane.RouteKey]string
	inUse  map[string][]netip.Prefix // the address space of each network, as of the last look of its node
	runs   map[string]func() bool    // whether the node of a network runs
}

// WatchApart begins to watch.
func WatchApart(w *world.World) *Apart { return &Apart{world: w, hosts: map[string]*shared{}} }

// Wrap wraps the lanes of a new process of a network on a host. Without the state file of the former run it does not
// remember what that one made, and another network that wants the same removes it.
func (a *Apart) Wrap(h *kernel.Host, network string, remembers bool, runs func() bool, p daemon.Parts) daemon.Parts {
	if a == nil {
		return p
	}
	on := a.hosts[h.Name()]
	if on == nil {
		on = &shared{
			Host: h, links: map[string]string{}, routes: map[dataplane.RouteKey]string{}, inUse: map[string][]netip.Prefix{},
			runs: map[string]func() bool{},
		}
		a.hosts[h.Name()] = on
	}
	on.inUse[network], on.runs[network] = nil, runs
	if !remembers {
		on.forget(network)
	}
	p.Lanes[node.HostLane] = apartHost{p.Lanes[node.HostLane], a, on, network}
	p.Lanes[node.FirewallLane] = apartFilter{p.Lanes[node.FirewallLane], a, on, network}
	return p
}

// forget ends the ownership of all that a network made.
func (s *shared) forget(network string) {
	maps.DeleteFunc(s.links, func(_, made string) bool { return made == network })
	maps.DeleteFunc(s.routes, func(_ dataplane.RouteKey, made string) bool { return made == network })
}

func (a *Apart) broken(on *shared, network string, what any, of string) {
	a.world.Fail(fmt.Errorf("invariant %q: %s: network %s did %q, which concerns network %s",
		"networks-apart", on.Name(), network, what, of))
}

// apartHost follows the changes of a host's devices and routes.
type apartHost struct {
	driver.Lane
	all     *Apart
	on      *shared
	network string
}

// Apply implements [driver.Lane].
func (l apartHost) Apply(ctx context.Context, ops []dataplane.Op) []error {
	errs := make([]error, 0, len(ops))
	for _, op := range ops {
		of := l.on.maker(op.Object)
		err := l.Lane.Apply(ctx, []dataplane.Op{op})[0]
		if err == nil {
			if of != "" && of != l.network {
				l.all.broken(l.on, l.network, op, of)
			}
			l.on.note(l.network, op)
		}
		errs = append(errs, err)
	}
	return errs
}

// maker returns the network that made an object, or the device that it is on; "" if none did, or if what
// it made has gone.
func (s *shared) maker(o dataplane.Object) string {
	if r, isRoute := o.(dataplane.Route); isRoute {
		now, exists := s.Route(r.RouteKey)
		if exists && now.Protocol == dataplane.Protocol {
			return s.routes[r.RouteKey]
		}
	}
	link := deviceOf(o)
	if s.exists(link) {
		return s.links[link]
	}
	return ""
}

// exists reports whether the host has a device.
func (s *shared) exists(link string) bool {
	return slices.ContainsFunc(s.Facts().Links, func(l driver.Link) bool { return l.Name == link })
}

// note follows a change.
func (s *shared) note(network string, op dataplane.Op) {
	made := network
	if op.Verb == dataplane.Delete {
		made = ""
	}
	switch o := op.Object.(type) {
	case dataplane.Link:
		s.links[o.Name] = made
	case dataplane.Route:
		s.routes[o.RouteKey] = made
	}
}

// apartFilter follows the changes of a host's firewall.
type apartFilter struct {
	driver.Lane
	all     *Apart
	on      *shared
	network string
}

// Look implements [driver.Lane].
func (l apartFilter) Look(ctx context.Context, e dataplane.Extent) (driver.Observation, error) {
	l.on.inUse[l.network] = e.Networks
	return l.Lane.Look(ctx, e)
}

// Apply implements [driver.Lane]. It compares the rules of the other networks before and after the change.
func (l apartFilter) Apply(ctx context.Context, ops []dataplane.Op) []error {
	before, err := l.on.rulesOfOthers(l.network)
	errs := l.Lane.Apply(ctx, ops)
	after, err2 := l.on.rulesOfOthers(l.network)
	if err != nil || err2 != nil {
		return errs // a fault that makes looks fail blinds these looks as well
	}
	for _, k := range slices.SortedFunc(maps.Keys(before), ruleKey.compare) {
		if rules := before[k]; !slices.Equal(rules, after[k]) {
			l.all.broken(l.on, l.network, ops, fmt.Sprintf("%s, whose rules were %q and are %q", k.network, rules, after[k]))
		}
	}
	return errs
}

// ruleKey names the rules of a network in a chain.
type ruleKey struct {
	chain   dataplane.ChainKey
	network string
}

func (k ruleKey) compare(o ruleKey) int {
	return cmp.Or(cmp.Compare(k.network, o.network), cmp.Compare(k.chain.Hook, o.chain.Hook),
		cmp.Compare(k.chain.Flavour, o.chain.Flavour), cmp.Compare(k.chain.Family, o.chain.Family))
}

// rulesOfOthers returns the rules of the other networks whose processes run, in their order.
func (s *shared) rulesOfOthers(network string) (map[ruleKey][]dataplane.Rule, error) {
	seen, err := s.Firewall().Look(context.Background(), dataplane.Extent{})
	if err != nil {
		return nil, err
	}
	found := map[ruleKey][]dataplane.Rule{}
	for _, c := range seen.State.Chains {
		rules, err := c.Rules.List()
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			about := r.From.Prefix
			if !about.IsValid() {
				about = r.To.Prefix
			}
			for other, prefixes := range s.inUse {
				inside := func(p netip.Prefix) bool { return about.IsValid() && cidr.Contains(p, about) }
				if other != network && s.runs[other]() && slices.ContainsFunc(prefixes, inside) {
					k := ruleKey{c.ChainKey, other}
					found[k] = append(found[k], r)
				}
			}
		}
	}
	return found, nil
}

// add adds the invariants of a network.
func (a *Apart) add(i *Invariants) {
	if a != nil {
		a.all = append(a.all, i)
	}
}

// noteRemoval notes that the process has learnt of the end of its network, one of several on its host, or
// that the network begins anew. It removes all that it has.
func (n *Node) noteRemoval(view lease.View) {
	if n.all.about.Apart == nil || view.Snapshot == nil {
		return
	}
	if len(view.Snapshot.Config.Data) == 0 || view.Beside != nil && view.Beside.Anew {
		n.leaving, n.excused = true, true
	}
}

// between reports whether the network, one of several on its host, is between two configs: the datastore
// holds none, or one that collides with that of another network which most hosts run, or another one than the
// process knows, or the host refuses one that another network wants as well.
func (n *Node) between() bool {
	i := n.all
	return i.about.Apart != nil && (i.bad || i.contested && n.refused || n.leaving || n.document != i.stored)
}
