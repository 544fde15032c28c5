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
	ways   []way
	ending map[string]bool // see [Set.Ending]
	down   map[string]bool // see [Set.Down]
	closed map[string]bool // see [Set.Closed]
	admits bool            // see [Set.Admitting]

	preparing bool // see [Set.Preparing]

	followed *bart.Lite // see [Set.Recall]; nil: none

	refused map[refusal]bool // the peers that a backend cannot serve, in one rendering
}

// refusal is a peer that the backend of a way cannot serve.
type refusal struct {
	way  int
	peer lease.Key
}

var (
	_ backend.Backend = (*Set)(nil)
	_ backend.Reacher = (*Set)(nil)
	_ backend.Noter   = (*Set)(nil)
	_ backend.Checker = (*Set)(nil)

	_ backend.ChecksumAdapter = (*Set)(nil)
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
		s = s.With(object)
	}
	return s, nil
}

// With returns the set with one more former way, the oldest. It returns the same set
// if it has that way, cannot open it, or has enough.
func (s *Set) With(object config.Backend) *Set {
	network := s.network()
	w, err := open(network, object)
	if err != nil || len(s.ways) > mostFormer {
		return s
	}
	if s.Has(w.id) {
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

// Without returns the set without a former way.
func (s *Set) Without(id string) *Set {
	next := *s
	next.ways = slices.DeleteFunc(slices.Clone(s.ways), func(w way) bool { return w.id == id })
	return &next
}

// WithoutAsides returns the set without the former ways whose devices have other names than alone.
func (s *Set) WithoutAsides() *Set {
	for _, w := range s.ways {
		if w.isAside {
			s = s.Without(w.id)
		}
	}
	return s
}

// Ending returns the set for a node that ends some former ways: it still receives by them. It sends by them
// where it has no other way, unless they are plain and the present one encrypts.
func (s *Set) Ending(ending map[string]bool) *Set {
	next := *s
	next.ending = ending
	return &next
}

// EndingLinks returns the devices of the former ways that end.
func (s *Set) EndingLinks() map[string]bool {
	links := map[string]bool{}
	for _, w := range s.ways {
		for _, link := range w.backend.Extent().Links {
			links[link] = s.ending[w.id] && !s.isUsed(link)
		}
	}
	return links
}

// isUsed reports whether a way that does not end has a device.
func (s *Set) isUsed(link string) bool {
	return slices.ContainsFunc(s.ways, func(w way) bool {
		return !s.ending[w.id] && slices.Contains(w.backend.Extent().Links, link)
	})
}

// Down returns the set for a node whose host cannot carry packets by some ways: the kernel has refused their devices,
// or nothing has their packet path yet. The node sends by another way where it has one.
func (s *Set) Down(down map[string]bool) *Set {
	next := *s
	next.down = down
	return &next
}

// Closed returns the set for a node that must not make the devices of some ways yet, since nothing keeps other
// hosts from them.
func (s *Set) Closed(closed map[string]bool) *Set {
	next := *s
	next.closed = closed
	return &next
}

// Open returns the set without the ways whose devices the node must not make yet.
func (s *Set) Open() *Set {
	for id := range s.closed {
		s = s.Without(id)
	}
	return s
}

// Links returns the devices of the way with an identity.
func (s *Set) Links(id string) []string {
	for _, w := range s.ways {
		if w.id == id {
			return w.backend.Extent().Links
		}
	}
	return nil
}

// Preparing returns the set for a node that announces its present way and does not use it yet. Peers exchange keys
// with it meanwhile, so that no packet has to wait for that later.
func (s *Set) Preparing(prepares bool) *Set {
	next := *s
	next.preparing = prepares
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

// Admitting returns the set for a node that takes unencrypted packets from all peers by former ways, although its
// present one encrypts: peers may not have read yet that it offers that.
func (s *Set) Admitting(all bool) *Set {
	next := *s
	next.admits = all
	return &next
}

// Paths returns the ways on which a process carries the packets of a TUN device.
func (s *Set) Paths() []string {
	var ids []string
	for _, w := range s.ways {
		if w.spec.DeviceKind == dataplane.LinkTUN {
			ids = append(ids, w.id)
		}
	}
	return ids
}

// Encrypts reports whether the way with an identity encrypts packets.
func (s *Set) Encrypts(id string) bool {
	return slices.ContainsFunc(s.ways, func(w way) bool { return w.id == id && w.spec.Encrypts })
}

// encrypts reports whether the node sends packets by a way that encrypts.
func (s *Set) encrypts() bool {
	return slices.ContainsFunc(s.ways, func(w way) bool { return w.spec.Encrypts && !s.ending[w.id] && !s.down[w.id] })
}

// isGuarded reports whether a way is plain and the present one encrypts: it takes packets from some peers only.
func (s *Set) isGuarded(i int) bool {
	present := s.ways[0]
	return i > 0 && !s.ways[i].spec.Encrypts && present.spec.Encrypts && !s.down[present.id]
}

// refusing returns the set for one rendering, in which backends refused some peers.
func (s *Set) refusing(peers map[refusal]bool) *Set {
	next := *s
	next.refused = peers
	return &next
}

// Has reports whether the set has a way. A nil set has none.
func (s *Set) Has(id string) bool {
	return s != nil && slices.ContainsFunc(s.ways, func(w way) bool { return w.id == id })
}

// Present returns the identity of the present way.
func (s *Set) Present() string { return s.ways[0].id }

// HasKey reports whether a record of the present way names a public key of the node.
func (s *Set) HasKey() bool { return len(s.ways[0].backend.Extent().Keys) > 0 }

// Former returns the identities of the former ways, newest first.
func (s *Set) Former() []string {
	var ids []string
	for _, w := range s.ways[1:] {
		ids = append(ids, w.id)
	}
	return ids
}

// Owner returns the identity of the way that a device belongs to, the present one first, or "".
func (s *Set) Owner(device string) string {
	for _, w := range s.ways {
		if slices.Contains(w.backend.Extent().Links, device) {
			return w.id
		}
	}
	return ""
}

// Objects returns the Backend objects of all ways, the present one first.
func (s *Set) Objects() []config.Backend {
	var objects []config.Backend
	for _, w := range s.ways {
		objects = append(objects, w.network.Backend)
	}
	return objects
}

// Ports returns the UDP ports of all ways.
func (s *Set) Ports() []backend.UDPPort {
	var ports []backend.UDPPort
	for _, w := range s.ways {
		ports = append(ports, w.ports()...)
	}
	return ports
}

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
	var names []dataplane.Renaming
	for _, w := range s.ways {
		if b, ok := w.backend.(backend.Asider); ok {
			names = append(names, b.Renamings()...)
		}
	}
	return names
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
	var addrs []netip.Addr
	for _, w := range s.ways {
		if b, ok := w.backend.(backend.Reacher); ok {
			addrs = append(addrs, b.Reach(w.network, peers)...)
		}
	}
	return addrs
}

// Notes implements [backend.Noter].
func (s *Set) Notes(env backend.Env) []string {
	if b, ok := s.ways[0].backend.(backend.Noter); ok {
		return b.Notes(env)
	}
	return nil
}

// AdaptsChecksums implements [backend.ChecksumAdapter].
func (s *Set) AdaptsChecksums() bool {
	b, ok := s.ways[0].backend.(backend.ChecksumAdapter)
	return ok && b.AdaptsChecksums()
}

// Check implements [backend.Checker].
func (s *Set) Check(env backend.Env) *backend.Lack {
	if b, ok := s.ways[0].backend.(backend.Checker); ok {
		return b.Check(env)
	}
	return nil
}

// Commander returns the present way's backend if it runs the operator's commands.
func (s *Set) Commander() (backend.Commander, bool) {
	b, ok := s.ways[0].backend.(backend.Commander)
	return b, ok
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
