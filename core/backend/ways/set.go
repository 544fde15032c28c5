package ways

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// mostFormer is the largest number of former ways that a node keeps.
const mostFormer = 3

// Set holds the ways of a node, the present one first. It is immutable.
type Set struct {
	ways     []way
	followed *bart.Lite       // see [Set.Recall]; nil: none
	refused  map[refusal]bool // the peers that a backend cannot serve, in one rendering
}

// Role says what a node does with one of its ways for the time being.
type Role struct {
	// Ending: the node still receives by this former way. It sends by it where it has no other way, unless the way is
	// plain and the present one encrypts.
	Ending bool
	// Down: the host cannot carry packets by it. The kernel has refused its devices, or nothing has its packet path yet.
	// The node sends by another way where it has one.
	Down bool
	// Closed: the node must not make its devices yet, since nothing keeps other hosts from them.
	Closed bool
	// Admits: it takes unencrypted packets from all peers although the present way encrypts. They may not have read yet
	// that the node offers that.
	Admits bool
	// Announced: the node announces the present way and does not use it yet. Peers exchange keys with it meanwhile, so
	// that no packet has to wait for that later.
	Announced bool
}

// unused reports whether the node does not send by a way if it has another.
func (r Role) unused() bool { return r.Down || r.Announced }

// refusal is a peer that the backend of a way cannot serve.
type refusal struct {
	way  int
	peer lease.Key
}

var (
	_ backend.Backend = (*Set)(nil)
	_ backend.Reacher = (*Set)(nil)
)

// New opens the way that a network config names, and those of the former ones that
// this host can have beside it, newest first. Its error is about the present way.
func New(network config.Network, former ...config.Backend) (*Set, error) {
	present, err := openExactly(network)
	if err != nil {
		return nil, err
	}
	s := &Set{ways: []way{present}}
	for _, object := range former {
		s = s.with(object)
	}
	return s, nil
}

// with returns the set with one more former way, the oldest. It returns the same set
// if it has that way, cannot open it, or has enough.
func (s *Set) with(object config.Backend) *Set {
	w, err := open(s.network(), object)
	if err != nil || len(s.ways) > mostFormer || s.Has(w.id) {
		return s
	}
	if !s.hasRoomFor(w) {
		w = w.aside()
	}
	if !s.hasRoomFor(w) {
		return s
	}
	next := *s
	next.ways = append(slices.Clip(s.ways), w)
	return &next
}

// hasRoomFor reports whether a way can be open beside those of the set.
func (s *Set) hasRoomFor(w way) bool {
	return !slices.ContainsFunc(s.ways, func(other way) bool { return !w.coexists(other) })
}

// network returns the config in force.
func (s *Set) network() config.Network { return s.ways[0].network }

// In returns the set with the roles of its ways, by identity.
func (s *Set) In(roles map[string]Role) *Set {
	next := s.without(func(way) bool { return false })
	for i, w := range next.ways {
		next.ways[i].role = roles[w.id]
	}
	return next
}

// Without returns the set without a former way.
func (s *Set) Without(id string) *Set { return s.without(func(w way) bool { return w.id == id }) }

// WithoutAsides returns the set without the former ways whose devices have other names than alone.
func (s *Set) WithoutAsides() *Set { return s.without(func(w way) bool { return w.isAside }) }

// Open returns the set without the ways whose devices the node must not make yet.
func (s *Set) Open() *Set { return s.without(func(w way) bool { return w.role.Closed }) }

// without returns the set without some ways.
func (s *Set) without(gone func(way) bool) *Set {
	next := *s
	next.ways = slices.DeleteFunc(slices.Clone(s.ways), gone)
	return &next
}

// Announces reports whether a record announces the present way.
func (s *Set) Announces(a *lease.Attrs) bool {
	return a.Ways.Next != nil && string(a.Ways.Next.Backend) == s.Present()
}

// Prepares reports whether the present way is one that needs an exchange of keys, and a plain former one carries
// packets of the peers that know a record of the node meanwhile.
func (s *Set) Prepares(a *lease.Attrs) bool {
	_, exchanges := s.ways[0].backend.(backend.KeyExchanger)
	return exchanges && !Offers(a, s.Present()) && slices.ContainsFunc(s.ways[1:], func(w way) bool {
		return !w.spec.Encrypts && Offers(a, w.id)
	})
}

// encrypts reports whether the node sends packets by a way that encrypts.
func (s *Set) encrypts() bool {
	return slices.ContainsFunc(s.ways, func(w way) bool { return w.encrypts() && !w.role.unused() })
}

// refusing returns the set for one rendering, in which backends refused some peers.
func (s *Set) refusing(peers map[refusal]bool) *Set {
	next := *s
	next.refused = peers
	return &next
}

// find returns the way with an identity. A nil set has none.
func (s *Set) find(id string) (way, bool) {
	if s != nil {
		for _, w := range s.ways {
			if w.id == id {
				return w, true
			}
		}
	}
	return way{}, false
}

// Has reports whether the set has a way.
func (s *Set) Has(id string) bool {
	_, ok := s.find(id)
	return ok
}

// Encrypts reports whether a way of the set encrypts packets.
func (s *Set) Encrypts(id string) bool {
	w, _ := s.find(id)
	return w.spec.Encrypts
}

// IsPath reports whether a process carries the packets of a way of the set, by a TUN device.
func (s *Set) IsPath(id string) bool {
	w, _ := s.find(id)
	return w.spec.DeviceKind == dataplane.LinkTUN
}

// Links returns the devices of a way of the set.
func (s *Set) Links(id string) []string {
	w, _ := s.find(id)
	return w.links()
}

// collect returns what the ways have, in their order.
func collect[T any](ways []way, of func(way) []T) (all []T) {
	for _, w := range ways {
		all = append(all, of(w)...)
	}
	return all
}

// Present returns the identity of the present way.
func (s *Set) Present() string { return s.ways[0].id }

// HasKey reports whether a record of the present way names a public key of the node.
func (s *Set) HasKey() bool { return len(s.ways[0].backend.Extent().Keys) > 0 }

// Former returns the identities of the former ways, newest first.
func (s *Set) Former() []string {
	return collect(s.ways[1:], func(w way) []string { return []string{w.id} })
}

// Owner returns the identity of the way that a device belongs to, the present one first, or "".
func (s *Set) Owner(device string) string {
	for _, w := range s.ways {
		if slices.Contains(w.links(), device) {
			return w.id
		}
	}
	return ""
}

// EndingLinks returns the devices of all ways, and whether only ways that end use them.
func (s *Set) EndingLinks() map[string]bool {
	links := map[string]bool{}
	for _, w := range s.ways {
		for _, link := range w.links() {
			others, known := links[link]
			links[link] = w.role.Ending && (others || !known)
		}
	}
	return links
}

// Objects returns the Backend objects of all ways, the present one first.
func (s *Set) Objects() []config.Backend {
	return collect(s.ways, func(w way) []config.Backend { return []config.Backend{w.network.Backend} })
}

// Ports returns the UDP ports of all ways.
func (s *Set) Ports() []backend.UDPPort { return collect(s.ways, way.ports) }

// PresentBackend returns the backend of the present way.
func (s *Set) PresentBackend() backend.Backend { return s.ways[0].backend }

// Type implements [backend.Backend]: the type of the present way.
func (s *Set) Type() string { return s.ways[0].backend.Type() }

// Extent implements [backend.Backend].
func (s *Set) Extent() dataplane.Extent {
	e := s.ways[0].backend.Extent()
	for _, w := range s.ways[1:] {
		more := w.backend.Extent()
		e.Links = append(slices.Clip(e.Links), more.Links...)
		e.Sysctls = append(slices.Clip(e.Sysctls), more.Sysctls...)
		e.Keys = append(slices.Clip(e.Keys), more.Keys...)
		e.Kinds = append(slices.Clip(e.Kinds), more.Kinds...)
		e.PSKs = append(slices.Clip(e.PSKs), more.PSKs...)
	}
	return e
}

// Renamings returns the names that the devices of the ways may have had.
func (s *Set) Renamings() []dataplane.Renaming {
	return collect(s.ways, func(w way) []dataplane.Renaming {
		if b, ok := w.backend.(backend.Asider); ok {
			return b.Renamings()
		}
		return nil
	})
}

// MTU implements [backend.Backend]: the smallest of all ways, so that a packet passes
// whichever way it takes.
func (s *Set) MTU(env backend.Env) int {
	mtu := s.ways[0].backend.MTU(env)
	for _, w := range s.ways[1:] {
		mtu = min(mtu, w.backend.MTU(w.env(env)))
	}
	return mtu
}

// Reach implements [backend.Reacher].
func (s *Set) Reach(_ config.Network, peers []*lease.Lease) []netip.Addr {
	return collect(s.ways, func(w way) []netip.Addr {
		if b, ok := w.backend.(backend.Reacher); ok {
			return b.Reach(w.network, peers)
		}
		return nil
	})
}

// Attrs implements [backend.Backend]. The attributes offer every way.
func (s *Set) Attrs(
	env backend.Env, stored lease.Attrs, have *dataplane.State, rng *rand.Rand,
) (lease.Attrs, error) {
	var faces []face
	for i, w := range s.ways {
		a, err := w.backend.Attrs(w.env(env), s.storedFor(i, stored), have, rng)
		switch {
		case err == nil:
			faces = append(faces, face{way: w, attrs: a})
		case i == 0:
			return lease.Attrs{}, err
		}
	}
	return compose(faces), nil
}
