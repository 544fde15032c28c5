package ways

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

// identityOf returns the identity of the way for which a record is written.
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

// Offers reports whether a record offers a way, and whether its owner may still send
// by it.
func Offers(a *lease.Attrs, id string) (offered, inUse bool) {
	if identityOf(a) == id {
		return true, true
	}
	for _, f := range a.Ways.Former {
		if string(f.Backend) == id {
			return true, !f.Unused
		}
	}
	return false, false
}

// identityOf returns the identity of the way for which a peer's record is written.
func (s *Set) identityOf(l *lease.Lease) string {
	id, present := identityOf(&l.Attrs), s.ways[0]
	if s.isSince(l) && present.id != id && present.replaces(id) {
		return present.id
	}
	return id
}

// isSince reports whether a record without ways is of a daemon that has begun with the present way: see [Set.Since].
func (s *Set) isSince(l *lease.Lease) bool {
	if !l.Attrs.Ways.IsEmpty() || s.since == 0 || l.ModRevision <= s.since {
		return false
	}
	if !s.ways[0].spec.DataOfDevice {
		return !l.Reserved() // an operator has written that
	}
	before := s.before[l.Key]
	return before == nil || !before.Attrs.Equal(l.Attrs)
}

// offers is [Offers] for a peer's record.
func (s *Set) offers(l *lease.Lease, id string) (offered, inUse bool) {
	if own := s.identityOf(l); l.Attrs.Ways.IsEmpty() {
		return own == id, own == id
	}
	return Offers(&l.Attrs, id)
}

// choose returns the way by which to send to a peer in one family: the first that
// the record offers and that works, or else the first that it offers, or else the one
// that replaces the record's: without a route, packets to the peer would leave by the
// default route. Ways that the peer may end come last. A record that does not name its way
// may lack a value, as the records of upstream do, so the first way of its type is taken for
// that of the record.
func (s *Set) choose(l *lease.Lease, f cidr.Family) (int, bool) {
	a := &l.Attrs
	if len(s.ways) == 1 && a.Ways.IsEmpty() {
		return 0, true // the backend itself judges the record
	}
	first := -1
	for _, risk := range [...]ending{notYet, unusedByPeer, leftByUs} {
		for i, w := range s.ways {
			offered, inUse := s.offers(l, w.id)
			if !offered || s.ending(i, inUse) != risk || !w.carries(f) {
				continue
			}
			if s.works(i, l, f) {
				return i, true
			}
			if first < 0 {
				first = i
			}
		}
	}
	if first < 0 {
		first = slices.IndexFunc(s.ways, func(w way) bool {
			stands := w.publishedType() == a.BackendType
			if a.Ways.Present != nil {
				stands = w.replaces(string(a.Ways.Present))
			}
			return stands && w.carries(f)
		})
	}
	if first < 0 && s.ways[0].spec.Untyped && a.Ways.IsEmpty() && s.ways[0].carries(f) {
		return 0, true // it serves records of every type (interop 6.0), as it does without former ways
	}
	return first, first >= 0
}

// ending says how soon a peer may end a way.
type ending int

const (
	notYet       ending = iota // the peer uses the way, and this node may use it
	unusedByPeer               // the peer waits for this node to say that it does not use the way
	leftByUs                   // this node's record says so, and the peer may have read that already
)

// ending returns how soon a peer may end a way. Its record says whether it uses the way.
func (s *Set) ending(i int, peerUses bool) ending {
	switch {
	case s.left[s.ways[i].id]:
		return leftByUs
	case !peerUses:
		return unusedByPeer
	}
	return notYet
}

// works reports whether this node can send to a peer by a way, and the peer takes packets
// from it that way.
func (s *Set) works(i int, l *lease.Lease, f cidr.Family) bool {
	w := s.ways[i]
	if s.refused[refusal{i, l.Key}] || s.idle[w.id] {
		return false
	}
	b, exchanges := w.backend.(backend.KeyExchanger)
	if !exchanges {
		return true
	}
	face, _ := w.face(&l.Attrs)
	key, ok := b.PeerKey(&face, f)
	return !ok || s.met[key]
}

// PublishedKeys returns the keys by which the peers of a node with this record know its devices.
func (s *Set) PublishedKeys(a *lease.Attrs) []dataplane.WGPeerKey {
	var keys []dataplane.WGPeerKey
	for _, w := range s.ways {
		if face, offered := w.face(a); offered {
			keys = append(keys, w.peerKeys(&face)...)
		}
	}
	return keys
}

// hears reports whether a peer may send by a way: its record offers it, or the way is
// the one by which to send to it. A backend without data in its records knows a sender by
// the address alone, and hears a peer before the peer's record offers the way, and so does one that
// already has a session with the peer.
func (s *Set) hears(i int, l *lease.Lease) bool {
	if offered, _ := s.offers(l, s.ways[i].id); offered {
		return true
	}
	if _, known := s.faceBeside(i, l); known {
		return true
	}
	return s.ways[i].spec.Untyped || slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		chosen, ok := s.choose(l, f)
		return ok && chosen == i
	})
}

// faceOf returns a peer's lease as the way's backend has to see it.
func (s *Set) faceOf(i int, l *lease.Lease) *lease.Lease {
	if s.identityOf(l) == s.ways[i].id {
		return l
	}
	face, ok := s.ways[i].face(&l.Attrs)
	if !ok {
		face, ok = s.faceBeside(i, l)
	}
	if !ok {
		return l // taken for one of this way
	}
	as := *l
	as.Attrs = face
	return &as
}

// faceBeside returns the attributes that a peer's record offers for another way on the same devices, if a
// session of that way is one of this way too. Such a peer may send by this way as soon as it has it.
func (s *Set) faceBeside(i int, l *lease.Lease) (lease.Attrs, bool) {
	w := s.ways[i]
	for j, o := range s.ways {
		if i == j || !w.shares(o) {
			continue
		}
		face, offered := o.face(&l.Attrs)
		beyond := func(k dataplane.WGPeerKey) bool { return !slices.Contains(o.peerKeys(&face), k) }
		if offered && !slices.ContainsFunc(w.peerKeys(&face), beyond) {
			return face, true
		}
	}
	return lease.Attrs{}, false
}

// peerKeys returns the keys of the objects that stand for a record of a way, each once.
func (w way) peerKeys(face *lease.Attrs) (keys []dataplane.WGPeerKey) {
	b, exchanges := w.backend.(backend.KeyExchanger)
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

// sharesNone reports whether a peer's record offers none of the node's ways.
func (s *Set) sharesNone(l *lease.Lease) bool {
	return !slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		_, ok := s.choose(l, f)
		return ok && l.Key.Of(f).IsValid()
	})
}

// takesForOwn reports whether a record without ways implies another way than the node's, which
// the present backend judges all the same. A record of upstream's implies one, too, and may lack
// a value: so this alone says little.
func (s *Set) takesForOwn(l *lease.Lease) bool {
	return l.Attrs.Ways.IsEmpty() && !slices.ContainsFunc(s.ways, func(w way) bool { return w.id == s.identityOf(l) })
}

// LeavesOut reports whether this node skips a peer's record, since the record is of a
// backend that the node does not have (interop 6.0). That is no fault of the record,
// and a rendering does not report it.
func (s *Set) LeavesOut(l *lease.Lease) bool {
	present := s.ways[0]
	switch {
	case present.spec.IgnoresPeers:
		return false
	case len(s.ways) == 1 && l.Attrs.Ways.IsEmpty():
		return !present.spec.Untyped && present.publishedType() != l.Attrs.BackendType
	}
	return s.sharesNone(l)
}

// Missing returns the ways that a node has to open beside its own to reach all peers:
// a peer offers one of these and none of the node's, and another peer, which is in
// the middle of the change, names it as a former way. One record alone opens nothing.
func (s *Set) Missing(peers []*lease.Lease) []config.Backend {
	var named []naming
	for _, p := range peers {
		for _, f := range p.Attrs.Ways.Former {
			if !f.Unused && !s.sharesNone(p) {
				named = append(named, naming{string(f.Backend), p})
			}
		}
	}
	if len(named) == 0 {
		return nil
	}
	var ids []string
	for _, p := range peers {
		if !s.sharesNone(p) && !s.takesForOwn(p) {
			continue
		}
		for _, n := range named {
			if offered, _ := s.offers(p, n.id); offered && n.by != p && !slices.Contains(ids, n.id) {
				ids = append(ids, n.id)
			}
		}
	}
	var missing []config.Backend
	for _, id := range ids {
		if object, ok := objectOf(id); ok {
			missing = append(missing, object)
		}
	}
	return missing
}

// naming is a record that names a former way.
type naming struct {
	id string
	by *lease.Lease
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

// Recalls returns the ways that the node's own record offers. An earlier run wrote it, or upstream, whose record may
// lack the backend's type, which may then be any of several, or a value: it tells no other way with the devices of
// the present one, such as vxlan with another port.
func (s *Set) Recalls(a *lease.Attrs) []config.Backend {
	if a.Ways.IsEmpty() && (a.BackendType == "" || s.ways[0].replaces(implied(a))) {
		return nil
	}
	return Named(a)
}

// Named returns the ways that a record offers, in its order. It skips ways that no
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
