package backends

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// Recall returns the set for a node that has seen records of some subnets offer one of its encrypting backends. While
// an unencrypted backend ends beside an encrypting one, the node sends nothing in the clear to these subnets, and takes
// nothing in the clear from their owners: a later record that offers less may come from another program. In all other
// sets the memory has no use and is empty.
func (s *Set) Recall(subnets []netip.Prefix) *Set {
	next := *s
	next.followed = nil
	present := s.members[0]
	isPlain := func(m member) bool { return !m.spec.Encrypts }
	if present.spec.Encrypts && slices.ContainsFunc(s.members, isPlain) {
		next.followed = &bart.Lite{}
		for _, p := range subnets {
			next.followed.Insert(p)
		}
	}
	return &next
}

// Learn returns the set with the subnets of the records that offer an encrypting backend of the set, or the same set if
// it recalls all of them. A record that overlaps an older one says nothing about the subnet of that.
func (s *Set) Learn(env backend.Env, self backend.Self, peers []*lease.Lease) *Set {
	if s.followed == nil {
		return s
	}
	known := s.followed
	peers, _ = s.disjoint(env, self, peers)
	for _, l := range peers {
		for _, f := range cidr.Families {
			if p := l.Key.Of(f); p.IsValid() && !known.Get(p) && s.offersEncrypted(l) {
				known = known.InsertPersist(p)
			}
		}
	}
	if known == s.followed {
		return s
	}
	next := *s
	next.followed = known
	return &next
}

// Followed returns the subnets that the set recalls, in order.
func (s *Set) Followed() []netip.Prefix {
	if s == nil || s.followed == nil {
		return nil
	}
	return slices.Collect(s.followed.AllSorted())
}

// offersEncrypted reports whether a record offers an encrypting backend that the node uses.
func (s *Set) offersEncrypted(l *lease.Lease) bool {
	return slices.ContainsFunc(s.members, func(m member) bool {
		return m.encrypts() && Offers(&l.Attrs, m.id)
	})
}

// FallsBack reports whether a record offers no encrypting backend of the node, though an earlier one of its subnet did.
func (s *Set) FallsBack(l *lease.Lease) bool {
	recalls := func(f cidr.Family) bool {
		p := l.Key.Of(f)
		return p.IsValid() && s.followed.OverlapsPrefix(p)
	}
	return s.followed != nil && slices.ContainsFunc(cidr.Families[:], recalls) && !s.offersEncrypted(l)
}
