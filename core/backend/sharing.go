package backend

import (
	"net/netip"
	"slices"

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
// as far as routes, neighbours and FDB entries are concerned.
type Sharer interface {
	Alike(Env) (as any, ok bool)
}

// fewest is how many leases a snapshot holds at least for sharing to be worth it.
const fewest = 64

// kept is how many renderings and comparisons are remembered: nodes follow the
// store within moments of each other.
const kept = 16

// Sharing lets the nodes of one process, such as those of a simulation, hold
// in one copy what is the same for all of them. It belongs to one goroutine.
type Sharing struct {
	commons []*common
	unequal []compared
}

// common is what follows from the leases of a snapshot for all nodes alike.
type common struct {
	snap  *lease.Snapshot
	as    alike
	plain bool // no peer has anything to do with another
	state dataplane.State
	owner map[netip.Addr]*lease.Lease // by public address
}

// alike is equal for nodes that render alike.
type alike struct {
	backend string
	v4, v6  config.Range
	as      any
}

type compared struct {
	a, b *dataplane.State
	keys *dataplane.Keys
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
	c := s.common(b, env, snap, alike{b.Type(), env.Config.V4, env.Config.V6, as})
	own, ok := c.own(env, self)
	if !ok {
		return dataplane.Layers{}, false
	}
	alone, problems := b.Render(env, self, nil)
	theirs, _ := b.Render(nobody(env), Self{}, []*lease.Lease{own})
	less := dataplane.NewKeys()
	less.AddState(theirs)
	return dataplane.Layers{Common: &c.state, Less: less, Own: alone}, len(problems) == 0
}

// own finds the node's record, if it is beyond doubt that this is the only one
// that the node does not serve as a peer.
func (c *common) own(env Env, self Self) (own *lease.Lease, ok bool) {
	for _, f := range cidr.Families {
		for _, a := range []netip.Addr{env.Uplink.Public(f), env.Uplink.Addr(f)} {
			switch l := c.owner[a]; {
			case !a.IsValid() || l == nil:
			case own == nil:
				own = l
			case own != l:
				return nil, false
			}
		}
	}
	// A record of another backend type is not among what was rendered.
	return own, c.plain && own != nil && own.Key == self.Key && own.Attrs.Equal(self.Attrs) && own.Attrs.BackendType == c.as.backend
}

// nobody is an environment that is no peer's.
func nobody(env Env) Env {
	env.Uplink.IP, env.Uplink.PublicIP, env.Uplink.IPv6, env.Uplink.PublicIPv6 = netip.Addr{}, netip.Addr{}, netip.Addr{}, netip.Addr{}
	return env
}

func (s *Sharing) common(b Backend, env Env, snap *lease.Snapshot, as alike) *common {
	for _, c := range s.commons {
		if c.snap == snap && c.as == as {
			return c
		}
	}
	state, problems := b.Render(nobody(env), Self{}, snap.Leases)
	c := &common{snap: snap, as: as, state: state, owner: map[netip.Addr]*lease.Lease{}, plain: len(problems) == 0}
	for _, l := range snap.Leases {
		for _, f := range cidr.Families {
			a := l.Attrs.IP(f)
			if !a.IsValid() {
				continue
			}
			c.plain = c.plain && c.owner[a] == nil
			c.owner[a] = l
		}
	}
	s.commons = append(s.commons, c)
	if len(s.commons) > kept {
		s.commons = slices.Delete(s.commons, 0, 1)
	}
	return c
}

// Unequal is [dataplane.Unequal] for two states that are common to many nodes.
func (s *Sharing) Unequal(a, b *dataplane.State) *dataplane.Keys {
	for _, c := range s.unequal {
		if c.a == a && c.b == b {
			return c.keys
		}
	}
	keys := dataplane.Unequal(*a, *b)
	s.unequal = append(s.unequal, compared{a, b, keys})
	if len(s.unequal) > kept {
		s.unequal = slices.Delete(s.unequal, 0, 1)
	}
	return keys
}
