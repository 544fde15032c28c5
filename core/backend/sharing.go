package backend

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Sharer is a Backend for which the objects of a peer may be the same on all
// nodes. Where they are, it says so with a value that is equal for all nodes
// that render alike, and for these must hold, as long as no peer is refused:
//
//	Render(env, self, peers) = Render(env, self, nil) + the sum of Render(env, Self{}, {p}) over the peers
//
// as far as routes, neighbours and FDB entries are concerned. A peer must be
// refused only for what it is by itself, or because of another with which it
// shares an address, part of a subnet, or the key of an object.
type Sharer interface {
	Alike(Env) (as any, ok bool)
}

// fewest is how many leases a snapshot holds at least for sharing to be worth it.
const fewest = 64

// kept is how many choices and pools are remembered: nodes follow the store
// within moments of each other.
const kept = 16

// Sharing lets the nodes of one process, such as those of a simulation, hold
// in one copy what is the same for all of them: what follows from a lease, made
// once, whatever the snapshots in which it occurs. It belongs to one goroutine.
type Sharing struct {
	pools []*pool // the latest last
}

// alike is equal for nodes that render alike.
type alike struct {
	backend string
	v4, v6  config.Range
	as      any
}

// Render is b.Render for the node whose record in the snapshot is self's, in
// layers. It says no where the definition has to be asked.
func (s *Sharing) Render(b Backend, env Env, self Self, snap *lease.Snapshot) (dataplane.Layers, bool) {
	sharer, ok := b.(Sharer)
	if s == nil || !ok || len(snap.Leases) < fewest {
		return dataplane.Layers{}, false
	}
	as, ok := sharer.Alike(env)
	if !ok {
		return dataplane.Layers{}, false
	}
	p := s.pool(alike{b.Type(), env.Config.V4, env.Config.V6, as}, len(snap.Leases))
	c := p.common(b, env, snap)
	own, ok := p.own(c, env, self)
	if !ok || p.entangled(c) {
		return dataplane.Layers{}, false
	}
	alone, problems := b.Render(env, self, nil)
	return dataplane.Layers{Common: c.But(own), Own: alone}, len(problems) == 0
}

// pool finds what was rendered alike, or begins anew, if there is nothing or
// most of it is of leases that are gone.
func (s *Sharing) pool(as alike, leases int) *pool {
	i := slices.IndexFunc(s.pools, func(p *pool) bool { return p.as == as })
	if i >= 0 {
		p := s.pools[i]
		// The most that a snapshot had: a node may be far behind the others.
		if p.most = max(p.most, leases); p.objects.Groups() <= 2*p.most+fewest {
			return p
		}
	}
	if i < 0 && len(s.pools) >= kept {
		i = 0
	}
	if i >= 0 {
		s.pools = slices.Delete(s.pools, i, i+1)
	}
	s.pools = append(s.pools, newPool(as))
	return s.pools[len(s.pools)-1]
}

// pool is what follows from leases for all nodes alike. Its groups are those
// of the objects.
type pool struct {
	as      alike
	objects *dataplane.Pool
	most    int            // leases in a snapshot
	leases  []*lease.Lease // by group
	groups  map[*lease.Lease]int
	records map[record]int       // the same by what a lease says
	owners  map[netip.Addr][]int // by public address
	subnets [2]bart.Table[[]int] // by family
	refused []int                // groups of leases that are refused by themselves
	clashes [][2]int             // groups that have something to do with each other
	commons []choice             // the latest last
}

// record identifies a lease in the course of a store.
type record struct {
	key              lease.Key
	created, changed int64
}

type choice struct {
	snap   *lease.Snapshot
	common *dataplane.Common
}

func newPool(as alike) *pool {
	return &pool{
		as: as, objects: dataplane.NewPool(),
		groups: map[*lease.Lease]int{}, records: map[record]int{}, owners: map[netip.Addr][]int{},
	}
}

// common is the choice of what follows from the leases of a snapshot.
func (p *pool) common(b Backend, env Env, snap *lease.Snapshot) *dataplane.Common {
	for _, c := range p.commons {
		if c.snap == snap {
			return c.common
		}
	}
	groups := make([]int, len(snap.Leases))
	for i, l := range snap.Leases {
		groups[i] = p.group(b, env, l)
	}
	c := p.objects.Choose(slices.Values(groups))
	p.commons = append(p.commons, choice{snap, c})
	if len(p.commons) > kept {
		p.commons = slices.Delete(p.commons, 0, 1)
	}
	return c
}

// group is that of a lease.
func (p *pool) group(b Backend, env Env, l *lease.Lease) int {
	g, ok := p.groups[l]
	if ok {
		return g
	}
	r := record{l.Key, l.CreateRevision, l.ModRevision}
	if g, ok = p.records[r]; !ok || !p.leases[g].Attrs.Equal(l.Attrs) {
		g = p.add(b, env, l)
		p.records[r] = g
	}
	if len(p.groups) > 4*len(p.leases)+fewest { // every node has leases of its own
		clear(p.groups)
	}
	p.groups[l] = g
	return g
}

// add makes a group of what follows from a lease, and notes with which others
// it clashes.
func (p *pool) add(b Backend, env Env, l *lease.Lease) int {
	state, problems := b.Render(nobody(env), Self{}, []*lease.Lease{l})
	keys := dataplane.NewKeys()
	keys.AddState(state)
	others := map[int]bool{}
	note := func(groups iter.Seq[int]) {
		for g := range groups {
			others[g] = true
		}
	}
	note(p.objects.With(keys))
	g := p.objects.Add(state)
	p.leases = append(p.leases, l)
	if len(problems) > 0 {
		p.refused = append(p.refused, g)
	}
	for _, f := range cidr.Families {
		if a := l.Attrs.IP(f); a.IsValid() {
			note(slices.Values(p.owners[a]))
			p.owners[a] = append(p.owners[a], g)
		}
		if subnet := l.Key.Of(f); subnet.IsValid() {
			note(slices.Values(p.overlapping(f, subnet)))
			same, _ := p.subnets[f].Get(subnet)
			p.subnets[f].Insert(subnet, append(same, g))
		}
	}
	delete(others, g) // which may have one address in both families
	for o := range others {
		p.clashes = append(p.clashes, [2]int{o, g})
	}
	return g
}

// overlapping are the groups of the leases whose subnet overlaps another.
func (p *pool) overlapping(f cidr.Family, subnet netip.Prefix) []int {
	var all []int
	for _, groups := range p.subnets[f].Supernets(subnet) { // and itself
		all = append(all, groups...)
	}
	for _, groups := range p.subnets[f].Subnets(subnet) {
		all = append(all, groups...)
	}
	return all
}

// entangled reports whether some lease of a choice is refused or has anything
// to do with another.
func (p *pool) entangled(c *dataplane.Common) bool {
	return slices.ContainsFunc(p.refused, c.Has) ||
		slices.ContainsFunc(p.clashes, func(both [2]int) bool { return c.Has(both[0]) && c.Has(both[1]) })
}

// own finds the node's record, if it is beyond doubt that this is the only one
// that the node does not serve as a peer.
func (p *pool) own(c *dataplane.Common, env Env, self Self) (own int, ok bool) {
	own = -1
	for _, f := range cidr.Families {
		for _, a := range []netip.Addr{env.Uplink.Public(f), env.Uplink.Addr(f)} {
			for _, g := range p.owners[a] {
				switch {
				case !c.Has(g):
				case own < 0:
					own = g
				case own != g:
					return 0, false
				}
			}
		}
	}
	if own < 0 {
		return 0, false
	}
	// A record of another backend type is not among what was rendered.
	l := p.leases[own]
	return own, l.Key == self.Key && l.Attrs.Equal(self.Attrs) && l.Attrs.BackendType == p.as.backend
}

// nobody is an environment that is no peer's.
func nobody(env Env) Env {
	env.Uplink.IP, env.Uplink.PublicIP, env.Uplink.IPv6, env.Uplink.PublicIPv6 = netip.Addr{}, netip.Addr{}, netip.Addr{}, netip.Addr{}
	return env
}
