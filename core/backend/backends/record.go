package backends

import (
	"encoding/json"

	"github.com/flanneld/flannel/core/lease"
)

// face is the part of a node's record about one backend.
type face struct {
	member member
	attrs  lease.Attrs
}

// compose returns the attributes that offer several backends: the first as the record's
// own, the others as previous ones.
func compose(faces []face) lease.Attrs {
	a := faces[0].attrs
	if first := faces[0].member; !first.spec.IgnoresPeers && implied(&a) != first.id {
		a.Ways.Present = json.RawMessage(first.id)
	}
	for _, f := range faces[1:] {
		a.Ways.Former = append(a.Ways.Former, lease.FormerWay{
			Backend: json.RawMessage(f.member.id), Data: f.attrs.BackendData, V6Data: f.attrs.BackendV6Data,
		})
	}
	return a
}

// storedFor returns the stored attributes of one backend. Stored attributes that offer
// none of the backends count as those of the present one: upstream's lack values.
func (s *Set) storedFor(i int, stored lease.Attrs) lease.Attrs {
	if face, ok := s.members[i].face(&stored); ok {
		return face
	}
	sameType := stored.BackendType == s.members[0].publishedType()
	if i == 0 && stored.Ways.Present == nil && !s.Has(implied(&stored)) && sameType {
		stored.Ways = lease.Ways{}
		return stored
	}
	return lease.Attrs{}
}

// Publish returns the attributes to publish: those of a, which offer every backend, without the backends that are not
// ready and those that end. If that leaves none, a backend that ends counts as well, and if none is ready, the node has
// nothing to lose and offers all. If the node only announces the present backend, the attributes do that: see [Role].
func (s *Set) Publish(a lease.Attrs, ready func(id string) bool) lease.Attrs {
	if len(s.members) == 1 {
		return a
	}
	if s.members[0].role.Announced {
		next, _ := s.members[0].face(&a)
		a = (&Set{members: s.members[1:]}).offering(a, ready)
		a.Ways.Next = &lease.FormerWay{
			Backend: json.RawMessage(s.Present()), Data: next.BackendData, V6Data: next.BackendV6Data,
		}
		return a
	}
	return s.offering(a, ready)
}

// offering returns the attributes that offer those of some backends that [Set.Publish] names.
func (s *Set) offering(a lease.Attrs, ready func(id string) bool) lease.Attrs {
	var faces, able, offered []face
	for _, m := range s.members {
		own, ok := m.face(&a)
		if !ok {
			continue
		}
		f := face{member: m, attrs: own}
		faces = append(faces, f)
		if !ready(m.id) {
			continue
		}
		able = append(able, f)
		if !m.role.Ending {
			offered = append(offered, f)
		}
	}
	for _, list := range [][]face{offered, able, faces} {
		if len(list) > 0 {
			return compose(list)
		}
	}
	return a
}
