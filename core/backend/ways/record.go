package ways

import (
	"encoding/json"

	"github.com/flanneld/flannel/core/lease"
)

// face is the part of a node's record about one way.
type face struct {
	way   way
	attrs lease.Attrs
}

// compose returns the attributes that offer several ways: the first as the record's
// own, the others as former ones.
func compose(faces []face) lease.Attrs {
	a := faces[0].attrs
	if first := faces[0].way; !first.spec.IgnoresPeers && implied(&a) != first.id {
		a.Ways.Present = json.RawMessage(first.id)
	}
	for _, f := range faces[1:] {
		a.Ways.Former = append(a.Ways.Former, lease.FormerWay{
			Backend: json.RawMessage(f.way.id), Data: f.attrs.BackendData, V6Data: f.attrs.BackendV6Data,
		})
	}
	return a
}

// storedFor returns the stored attributes of one way. Stored attributes that offer
// none of the ways count as those of the present one: upstream's lack values.
func (s *Set) storedFor(i int, stored lease.Attrs) lease.Attrs {
	if face, ok := s.ways[i].face(&stored); ok {
		return face
	}
	sameType := stored.BackendType == s.ways[0].publishedType()
	if i == 0 && stored.Ways.Present == nil && !s.Has(implied(&stored)) && sameType {
		stored.Ways = lease.Ways{}
		return stored
	}
	return lease.Attrs{}
}

// Publish returns the attributes to publish: those of a, which offer every way,
// without the ways that are not ready and those that end. If that leaves none, a way that ends counts as well, and if
// none is ready, the node has nothing to lose and offers all. If the node prepares the present way, the attributes
// only announce that one: see [Role].
func (s *Set) Publish(a lease.Attrs, ready func(id string) bool) lease.Attrs {
	if len(s.ways) == 1 {
		return a
	}
	if s.ways[0].role.Announced {
		next, _ := s.ways[0].face(&a)
		a = (&Set{ways: s.ways[1:]}).offering(a, ready)
		a.Ways.Next = &lease.FormerWay{
			Backend: json.RawMessage(s.Present()), Data: next.BackendData, V6Data: next.BackendV6Data,
		}
		return a
	}
	return s.offering(a, ready)
}

// offering returns the attributes that offer those of some ways that [Set.Publish] names.
func (s *Set) offering(a lease.Attrs, ready func(id string) bool) lease.Attrs {
	var faces, able, offered []face
	for _, w := range s.ways {
		own, ok := w.face(&a)
		if !ok {
			continue
		}
		f := face{way: w, attrs: own}
		faces = append(faces, f)
		if !ready(w.id) {
			continue
		}
		able = append(able, f)
		if !w.role.Ending {
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
