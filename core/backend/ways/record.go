package ways

import (
	"encoding/json"
	"slices"

	"github.com/flanneld/flannel/core/lease"
)

// face is the part of a node's record about one way.
type face struct {
	way    way
	attrs  lease.Attrs
	unused bool
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
			Unused: f.unused,
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

// NameWay returns the attributes of a record with the way for which it is written, if peers could take it for a record
// of the present way: see [Set.Since].
func (s *Set) NameWay(a lease.Attrs) lease.Attrs {
	present, id := s.ways[0], implied(&a)
	if a.Ways.Present == nil && id != present.id && present.replaces(id) {
		a.Ways.Present = json.RawMessage(id)
	}
	return a
}

// Publish returns the attributes to publish: those of a, which offer every way,
// without the ways that are not ready. Unused tells the former ways by which the node
// sends to no peer. If no way is ready, the node has nothing to lose and offers all.
func (s *Set) Publish(a lease.Attrs, ready, unused func(id string) bool) lease.Attrs {
	if len(s.ways) == 1 {
		return a
	}
	var faces []face
	for _, w := range s.ways {
		if own, ok := w.face(&a); ok {
			faces = append(faces, face{way: w, attrs: own, unused: unused(w.id)})
		}
	}
	offered := slices.DeleteFunc(slices.Clone(faces), func(f face) bool { return !ready(f.way.id) })
	switch {
	case len(offered) > 0:
		return compose(offered)
	case len(faces) > 0:
		return compose(faces)
	}
	return a
}
