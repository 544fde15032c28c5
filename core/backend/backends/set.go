package backends

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

// mostPrevious is the largest number of previous backends that a node keeps.
const mostPrevious = 3

// Set holds the backends of a node, the present one first. It is immutable.
type Set struct {
	members  []member
	followed *bart.Lite       // see [Set.Recall]; nil: none
	refused  map[refusal]bool // the peers that a backend cannot serve, in one rendering
}

// Role says what a node does with one of its backends for the time being.
type Role struct {
	// Ending: the node still receives by this previous backend. It sends by it where it has no other one, unless it is
	// plain and the present one encrypts.
	Ending bool
	// Down: the host cannot carry packets by it. The kernel has refused its devices, or nothing has its packet path
	// yet. The node sends by another backend where it has one.
	Down bool
	// Closed: the node must not make its devices yet, since nothing keeps other hosts from them.
	Closed bool
	// Admits: it takes unencrypted packets from all peers although the present backend encrypts. They may not have read
	// yet that the node offers that.
	Admits bool
	// Announced: the node announces the present backend and does not use it yet. Peers exchange keys with it meanwhile,
	// so that no packet has to wait for that later.
	Announced bool
}

// unused reports whether the node does not send by a backend if it has another.
func (r Role) unused() bool { return r.Down || r.Announced }

// refusal is a peer that a backend cannot serve.
type refusal struct {
	member int
	peer   lease.Key
}

var (
	_ backend.Backend = (*Set)(nil)
	_ backend.Reacher = (*Set)(nil)
)

// New opens the backend that a network config names, and those of the previous ones that
// this host can have beside it, newest first. Its error is about the present backend.
func New(network config.Network, previous ...config.Backend) (*Set, error) {
	present, err := openExactly(network)
	if err != nil {
		return nil, err
	}
	s := &Set{members: []member{present}}
	for _, object := range previous {
		s = s.with(object)
	}
	return s, nil
}

// with returns the set with one more previous backend, the oldest. It returns the same set
// if it has that backend, cannot open it, or has enough.
func (s *Set) with(object config.Backend) *Set {
	m, err := open(s.network(), object)
	if err != nil || len(s.members) > mostPrevious || s.Has(m.id) {
		return s
	}
	if !s.hasRoomFor(m) {
		m = m.aside()
	}
	if !s.hasRoomFor(m) {
		return s
	}
	next := *s
	next.members = append(slices.Clip(s.members), m)
	return &next
}

// hasRoomFor reports whether a backend can be open beside those of the set.
func (s *Set) hasRoomFor(m member) bool {
	return !slices.ContainsFunc(s.members, func(other member) bool { return !m.coexists(other) })
}

// network returns the config in force.
func (s *Set) network() config.Network { return s.members[0].network }

// In returns the set with the roles of its backends, by identity.
func (s *Set) In(roles map[string]Role) *Set {
	next := s.without(func(member) bool { return false })
	for i, m := range next.members {
		next.members[i].role = roles[m.id]
	}
	return next
}

// Without returns the set without a previous backend.
func (s *Set) Without(id string) *Set { return s.without(func(m member) bool { return m.id == id }) }

// WithoutAsides returns the set without the previous backends whose devices have other names than alone.
func (s *Set) WithoutAsides() *Set { return s.without(func(m member) bool { return m.isAside }) }

// Open returns the set without the backends whose devices the node must not make yet.
func (s *Set) Open() *Set { return s.without(func(m member) bool { return m.role.Closed }) }

// without returns the set without some backends.
func (s *Set) without(gone func(member) bool) *Set {
	next := *s
	next.members = slices.DeleteFunc(slices.Clone(s.members), gone)
	return &next
}

// Announces reports whether a record announces the present backend.
func (s *Set) Announces(a *lease.Attrs) bool {
	return a.Ways.Next != nil && string(a.Ways.Next.Backend) == s.Present()
}

// Prepares reports whether the present backend is one that needs an exchange of keys, and a plain previous one carries
// packets of the peers that know a record of the node meanwhile.
func (s *Set) Prepares(a *lease.Attrs) bool {
	_, exchanges := s.members[0].backend.(backend.KeyExchanger)
	return exchanges && !Offers(a, s.Present()) && slices.ContainsFunc(s.members[1:], func(m member) bool {
		return !m.spec.Encrypts && Offers(a, m.id)
	})
}

// encrypts reports whether the node sends packets by a backend that encrypts.
func (s *Set) encrypts() bool {
	return slices.ContainsFunc(s.members, func(m member) bool { return m.encrypts() && !m.role.unused() })
}

// refusing returns the set for one rendering, in which backends refused some peers.
func (s *Set) refusing(peers map[refusal]bool) *Set {
	next := *s
	next.refused = peers
	return &next
}

// find returns the backend with an identity. A nil set has none.
func (s *Set) find(id string) (member, bool) {
	if s != nil {
		for _, m := range s.members {
			if m.id == id {
				return m, true
			}
		}
	}
	return member{}, false
}

// Has reports whether the set has a backend.
func (s *Set) Has(id string) bool {
	_, ok := s.find(id)
	return ok
}

// Encrypts reports whether a backend of the set encrypts packets.
func (s *Set) Encrypts(id string) bool {
	m, _ := s.find(id)
	return m.spec.Encrypts
}

// IsPath reports whether a process carries the packets of a backend of the set, by a TUN device.
func (s *Set) IsPath(id string) bool {
	m, _ := s.find(id)
	return m.spec.DeviceKind == dataplane.LinkTUN
}

// Links returns the devices of a backend of the set.
func (s *Set) Links(id string) []string {
	m, _ := s.find(id)
	return m.links()
}

// collect returns what the backends have, in their order.
func collect[T any](members []member, of func(member) []T) (all []T) {
	for _, m := range members {
		all = append(all, of(m)...)
	}
	return all
}

// Present returns the identity of the present backend.
func (s *Set) Present() string { return s.members[0].id }

// HasKey reports whether a record of the present backend names a public key of the node.
func (s *Set) HasKey() bool { return len(s.members[0].backend.Extent().Keys) > 0 }

// Previous returns the identities of the previous backends, newest first.
func (s *Set) Previous() []string {
	return collect(s.members[1:], func(m member) []string { return []string{m.id} })
}

// Owner returns the identity of the backend that a device belongs to, the present one first, or "".
func (s *Set) Owner(device string) string {
	for _, m := range s.members {
		if slices.Contains(m.links(), device) {
			return m.id
		}
	}
	return ""
}

// EndingLinks returns the devices of all backends, and whether only backends that end use them.
func (s *Set) EndingLinks() map[string]bool {
	links := map[string]bool{}
	for _, m := range s.members {
		for _, link := range m.links() {
			others, known := links[link]
			links[link] = m.role.Ending && (others || !known)
		}
	}
	return links
}

// Objects returns the Backend objects of all backends, the present one first.
func (s *Set) Objects() []config.Backend {
	return collect(s.members, func(m member) []config.Backend { return []config.Backend{m.network.Backend} })
}

// Ports returns the UDP ports of all backends.
func (s *Set) Ports() []backend.UDPPort { return collect(s.members, member.ports) }

// PresentBackend returns the present backend.
func (s *Set) PresentBackend() backend.Backend { return s.members[0].backend }

// Type implements [backend.Backend]: the type of the present backend.
func (s *Set) Type() string { return s.members[0].backend.Type() }

// Extent implements [backend.Backend].
func (s *Set) Extent() dataplane.Extent {
	e := s.members[0].backend.Extent()
	for _, m := range s.members[1:] {
		more := m.backend.Extent()
		e.Links = append(slices.Clip(e.Links), more.Links...)
		e.Sysctls = append(slices.Clip(e.Sysctls), more.Sysctls...)
		e.Keys = append(slices.Clip(e.Keys), more.Keys...)
		e.Kinds = append(slices.Clip(e.Kinds), more.Kinds...)
		e.PSKs = append(slices.Clip(e.PSKs), more.PSKs...)
	}
	return e
}

// Renamings returns the names that the devices of the backends may have had.
func (s *Set) Renamings() []dataplane.Renaming {
	return collect(s.members, func(m member) []dataplane.Renaming {
		if b, ok := m.backend.(backend.Asider); ok {
			return b.Renamings()
		}
		return nil
	})
}

// MTU implements [backend.Backend]: the smallest of all backends, so that a packet passes
// by each of them.
func (s *Set) MTU(env backend.Env) int {
	mtu := s.members[0].backend.MTU(env)
	for _, m := range s.members[1:] {
		mtu = min(mtu, m.backend.MTU(m.env(env)))
	}
	return mtu
}

// Reach implements [backend.Reacher].
func (s *Set) Reach(_ config.Network, peers []*lease.Lease) []netip.Addr {
	return collect(s.members, func(m member) []netip.Addr {
		if b, ok := m.backend.(backend.Reacher); ok {
			return b.Reach(m.network, peers)
		}
		return nil
	})
}

// Attrs implements [backend.Backend]. The attributes offer every backend.
func (s *Set) Attrs(
	env backend.Env, stored lease.Attrs, have *dataplane.State, rng *rand.Rand,
) (lease.Attrs, error) {
	var faces []face
	for i, m := range s.members {
		a, err := m.backend.Attrs(m.env(env), s.storedFor(i, stored), have, rng)
		switch {
		case err == nil:
			faces = append(faces, face{member: m, attrs: a})
		case i == 0:
			return lease.Attrs{}, err
		}
	}
	return compose(faces), nil
}
