package backends

import (
	"encoding/json"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// identityOf returns the identity of the backend for which a record is written.
func identityOf(a *lease.Attrs) string {
	if a.Ways.Present != nil {
		return string(a.Ways.Present)
	}
	return implied(a)
}

// implied returns the identity that follows from a record's type and data: members
// of the data with the name of an agreed option have the option's value, unless the backend itself
// reads them ([backend.Spec.Shows]). It returns "" if the type is unknown.
func implied(a *lease.Attrs) string {
	spec, known := all.Find(a.BackendType)
	if !known {
		return ""
	}
	data := a.BackendData
	if data == nil {
		data = a.BackendV6Data
	}
	object := config.Backend{Type: spec.Type}
	if len(data) > 0 && data[0] == '{' {
		object.Options = data
	}
	if spec.Shows != nil {
		object.Options = spec.Shows(a)
	}
	id, err := spec.Identity(object, backend.Both)
	if err != nil {
		return ""
	}
	return id
}

// Offers reports whether a record offers a backend.
func Offers(a *lease.Attrs, id string) bool {
	return identityOf(a) == id ||
		slices.ContainsFunc(a.Ways.Former, func(f lease.FormerWay) bool { return string(f.Backend) == id })
}

// Follows reports whether a peer's record offers the present backend.
func (s *Set) Follows(l *lease.Lease) bool { return Offers(&l.Attrs, s.Present()) }

// choose returns the backend by which to send to a peer in one family. Among those that the record offers, one that
// encrypts comes first, whether or not it has a session: packets wait there. Then come the others in
// order, and those that end come last. Without any, see [Set.standsFor].
func (s *Set) choose(l *lease.Lease, f cidr.Family) (int, bool) {
	if len(s.members) == 1 && l.Attrs.Ways.IsEmpty() {
		return 0, true // the backend itself judges the record
	}
	best, rank := -1, 0
	for i := range s.members {
		if r := s.rank(i, l, f); r > rank {
			best, rank = i, r
		}
	}
	return best, rank > 0
}

// rank orders the backends by which to send to a peer; the highest counts, and 0 is none.
func (s *Set) rank(i int, l *lease.Lease, f cidr.Family) int {
	m := s.members[i]
	switch {
	case !m.carries(f), s.isGuarded(i) && (m.role.Ending || s.FallsBack(l)):
		return 0
	case !Offers(&l.Attrs, m.id) && !s.standsFor(m, l):
		return 0
	case !Offers(&l.Attrs, m.id):
		return 1
	case m.encrypts() && !m.role.unused():
		return 5
	case s.refused[refusal{i, l.Key}] || m.role.unused():
		return 2
	case m.role.Ending:
		return 3
	}
	return 4
}

// sends reports whether the node sends to a peer by one of some backends.
func (s *Set) sends(l *lease.Lease, some func(i int) bool) bool {
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		i, ok := s.choose(l, f)
		return ok && l.Key.Of(f).IsValid() && some(i)
	})
}

// standsFor reports whether a backend is the one by which to send to a peer whose record offers none of the node's.
// Such a record of upstream's may lack a value, so its type alone counts. Another one may name a backend that the host
// has only in another form: without a route, packets to the peer would leave by the default route. A node that encrypts
// has a route for the whole network, so it needs no plain backend in place of another.
func (s *Set) standsFor(m member, l *lease.Lease) bool {
	a := &l.Attrs
	switch {
	case m.role.Ending && !m.spec.Encrypts && s.encrypts():
		return false
	case a.Ways.IsEmpty() && m.id == s.Present() && m.spec.Untyped:
		return true // it serves records of every type (interop 6.0), as it does without previous backends
	case a.Ways.Present == nil:
		return m.publishedType() == a.BackendType
	}
	return m.replaces(string(a.Ways.Present)) && (m.spec.Encrypts || !s.encrypts())
}

// PublishedKeys returns the keys by which the peers of a node with this record know its devices.
func (s *Set) PublishedKeys(a *lease.Attrs) []dataplane.WGPeerKey {
	var keys []dataplane.WGPeerKey
	for _, m := range s.members {
		if face, offered := m.face(a); offered {
			keys = append(keys, m.peerKeys(&face)...)
		}
	}
	return keys
}

// accepts reports whether a peer may send by a backend: its record offers it, or the backend is the one by which to
// send to it. A backend without data in its records knows a sender by the address alone, and accepts a peer before the
// peer's record offers the backend, and so does one that already has a session with the peer. Where the present backend
// encrypts, a plain one accepts no peer that has followed.
func (s *Set) accepts(i int, l *lease.Lease) bool {
	if s.isGuarded(i) && (!s.members[i].role.Admits && s.Follows(l) || s.FallsBack(l)) {
		return false
	}
	next := l.Attrs.Ways.Next
	if Offers(&l.Attrs, s.members[i].id) || next != nil && string(next.Backend) == s.members[i].id {
		return true
	}
	if _, known := s.faceBeside(i, l); known {
		return true
	}
	return s.members[i].spec.Untyped || s.sends(l, func(by int) bool { return by == i })
}

// faceOf returns a peer's lease as the backend has to see it.
func (s *Set) faceOf(i int, l *lease.Lease) *lease.Lease {
	if identityOf(&l.Attrs) == s.members[i].id {
		return l
	}
	face, ok := s.members[i].face(&l.Attrs)
	if !ok {
		face, ok = s.faceBeside(i, l)
	}
	if !ok {
		return l // taken for one of this backend
	}
	as := *l
	as.Attrs = face
	return &as
}

// faceBeside returns the attributes that a peer's record offers for another backend on the same devices, if a
// session of that backend is one of this backend too. Such a peer may send by this backend as soon as it has it.
func (s *Set) faceBeside(i int, l *lease.Lease) (lease.Attrs, bool) {
	m := s.members[i]
	for j, o := range s.members {
		if i == j || !m.shares(o) {
			continue
		}
		face, offered := o.face(&l.Attrs)
		beyond := func(k dataplane.WGPeerKey) bool { return !slices.Contains(o.peerKeys(&face), k) }
		if offered && !slices.ContainsFunc(m.peerKeys(&face), beyond) {
			return face, true
		}
	}
	return lease.Attrs{}, false
}

// peerKeys returns the keys of the objects that stand for a record of a backend, each once.
func (m member) peerKeys(face *lease.Attrs) (keys []dataplane.WGPeerKey) {
	b, exchanges := m.backend.(backend.KeyExchanger)
	for _, f := range cidr.Families {
		if !exchanges {
			break
		}
		if key, ok := b.PeerKey(face, f); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// sharesNone reports whether a peer's record offers none of the node's backends.
func (s *Set) sharesNone(l *lease.Lease) bool { return !s.sends(l, func(int) bool { return true }) }

// LeavesOut reports whether this node skips a peer's record, since the record is of a
// backend that the node does not have (interop 6.0). That is no fault of the record,
// and a rendering does not report it.
func (s *Set) LeavesOut(l *lease.Lease) bool {
	present := s.members[0]
	switch {
	case present.spec.IgnoresPeers:
		return false
	case len(s.members) == 1 && l.Attrs.Ways.IsEmpty():
		return !present.spec.Untyped && present.publishedType() != l.Attrs.BackendType
	}
	return s.sharesNone(l)
}

// objectOf returns the Backend object with an identity. It returns false for a text
// that is no identity of a backend: another host wrote it.
func objectOf(id string) (config.Backend, bool) {
	object := config.Backend{Options: json.RawMessage(id)}
	var head struct{ Type string }
	if err := json.Unmarshal(object.Options, &head); err != nil {
		return config.Backend{}, false
	}
	object.Type = head.Type
	spec, known := all.Find(head.Type)
	if !known || head.Type == "" {
		return config.Backend{}, false
	}
	same, err := spec.Identity(object, backend.Both)
	return object, err == nil && same == id
}

// Named returns the backends that a record offers, in its order. It skips backends that no
// config could name.
func Named(a *lease.Attrs) []config.Backend {
	ids := []string{identityOf(a)}
	for _, f := range a.Ways.Former {
		ids = append(ids, string(f.Backend))
	}
	var named []config.Backend
	for _, id := range ids {
		if object, ok := objectOf(id); ok {
			named = append(named, object)
		}
	}
	return named
}
