package node

import (
	"slices"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/identity"
)

// keptRecord returns the record of the last run if a record of another host has the node's address, or the address in
// that one, as after two hosts have swapped their addresses while no daemon ran. The pods of the host have addresses of
// its subnet, so the record that the state file confirms is the node's, and it publishes its present address there.
// Without such a conflict the state file may be a copy, as on a machine that was cloned.
func (n *Node) keptRecord(withAddress []lease.Lease) (lease.Lease, bool) {
	s := n.store.saved
	if n.lease.grant != nil || s == nil || n.lease.ceded[s.Self.Key] {
		return lease.Lease{}, false
	}
	isKept := func(r lease.Lease) bool { return r.Key == s.Self.Key }
	kept, exists := findLease(n.store.snap, s.Self.Key)
	if !exists || slices.ContainsFunc(withAddress, isKept) || n.unfit(kept) != nil {
		return lease.Lease{}, false
	}
	conflicts := func(r *lease.Lease) bool {
		return s.knows(r) && (n.identity().Publishes(&r.Attrs) || identity.SameOwner(&r.Attrs, &kept.Attrs))
	}
	return kept, slices.ContainsFunc(n.store.snap.Leases, conflicts) && s.confirms(kept)
}

// knows reports whether the last run knew a record as a peer's. The node itself may have written a younger one, if the
// state file is older than its last run.
func (s *saved) knows(r *lease.Lease) bool {
	before, known := findLease(&s.Snapshot, r.Key)
	return known && r.Key != s.Self.Key && before.CreateRevision == r.CreateRevision
}

// confirms reports whether a record under the saved key is the one that the last run wrote: it has its backend data, or
// for a backend without data all its attributes and its age.
func (s *saved) confirms(r lease.Lease) bool {
	own := s.Self.Attrs
	if own.BackendType != r.Attrs.BackendType {
		return false
	}
	if sameData(own, r.Attrs) {
		return true
	}
	before, known := findLease(&s.Snapshot, r.Key)
	return own.Equal(r.Attrs) && known && before.CreateRevision == r.CreateRevision
}
