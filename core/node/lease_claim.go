package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/identity"
)

// acquire asks for a subnet: that of our own record, else the previous one, else
// any free one (interop 3.5: the order of upstream).
func (n *Node) acquire() {
	l := &n.lease
	own, ok := n.ownRecord()
	if ok {
		err := n.unfit(own)
		switch {
		case err == nil:
			n.adopt(own)
			return
		case !own.Reserved():
			n.move(lease.Grant{Lease: own}, err)
			return
		}
		l.trouble = fmt.Errorf("our reservation %s cannot be used: %w", own.Key, err)
		n.once(Warning, "reservation-unfit", l.trouble.Error())
	}
	key, err := n.choose(n.store.snap, append(n.formerKeys(), own.Key)...)
	if err != nil {
		n.noSubnet(err)
		n.retryLease()
		return
	}
	n.request(Request{Verb: Create, Key: key, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
}

// claimed returns a snapshot together with the records that the datastore lost
// by accident: those peers will ask for the same subnets again.
func (n *Node) claimed(snap *lease.Snapshot) *lease.Snapshot {
	all := *snap
	all.Leases = slices.Concat(snap.Leases, n.store.lost.peers)
	return &all
}

// formerKeys returns the subnets that were ours: that of this run or of the
// subnet file, then that of the state file, in case the subnet file is damaged.
func (n *Node) formerKeys() []lease.Key {
	keys := []lease.Key{n.lease.previous}
	if n.store.saved != nil {
		keys = append(keys, n.store.saved.Self.Key)
	}
	return keys
}

// choose returns a subnet that is free in a snapshot: a former one that fits, else the
// half of one that fits, completed with a drawn half. Our other records, such as a
// reservation that the node cannot use, do not count as taken.
func (n *Node) choose(snap *lease.Snapshot, former ...lease.Key) (lease.Key, error) {
	foreign, own := *snap, n.identity()
	isOurs := func(l *lease.Lease) bool { return own.Publishes(&l.Attrs) }
	foreign.Leases = slices.DeleteFunc(slices.Clone(snap.Leases), isOurs)
	var kept lease.Key
	for _, k := range former {
		keep := alloc.Keep(n.network.config, &foreign, k)
		if alloc.Compatible(n.network.config, keep) == nil {
			return keep, nil
		}
		if !kept.IsValid() {
			kept = keep
		}
	}
	return alloc.Choose(n.network.config, n.claimed(snap), kept, n.opts.Rand)
}

func (n *Node) noSubnet(err error) {
	n.lease.trouble = err
	n.once(Error, "no-subnet", err.Error())
}

// move replaces our record, which cannot be used any more, by one for another
// subnet, in one change of the datastore: no peer sees a moment without a record.
// The half that still fits is kept, so that the pods lose no address in that
// family. If no subnet is free, the record stays. If our reservation with that half
// fits again, the node goes back to it.
func (n *Node) move(own lease.Grant, why error) {
	l := &n.lease
	n.once(Warning, "lease-unfit", fmt.Sprintf("lease %s cannot be used any more (%v); moving to another subnet",
		own.Key, why))
	if n.reservationFor(own.Key) {
		n.request(Request{Verb: Release, Grant: own})
		n.drop()
		return
	}
	// If the last attempt succeeded unnoticed, the same target makes this one fail
	// by a conflict, and the snapshot that shows it explains the rest.
	former := append([]lease.Key{l.target, own.Key}, n.formerKeys()...)
	next, err := n.choose(without(n.store.snap, own.Key), former...)
	if err != nil {
		n.noSubnet(fmt.Errorf("lease %s cannot be used any more (%w), and %w", own.Key, why, err))
		n.retryLease()
		return
	}
	l.target = next
	n.request(Request{Verb: Move, Grant: own, Key: next, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
}

// reservationFor reports whether the node can use a reservation that shares a half
// with our key.
func (n *Node) reservationFor(key lease.Key) bool {
	return slices.ContainsFunc(n.store.snap.Leases, func(l *lease.Lease) bool {
		return l.Reserved() && n.identity().Publishes(&l.Attrs) && l.Key.Overlaps(key) && n.unfit(*l) == nil
	})
}

// recordGone handles a snapshot without our record. Either it is lost, or it was
// moved by a request whose answer was lost; then the node adopts the new record.
func (n *Node) recordGone() {
	l := &n.lease
	rec, ok := findLease(n.store.snap, l.target)
	if !ok || !identity.SameOwner(&rec.Attrs, &l.attrs) {
		n.lost(fmt.Errorf("lease %s is gone from the datastore", l.grant.Key))
		return
	}
	l.previous = rec.Key
	n.drop()
	l.attempts, l.retryAt = 0, time.Time{}
}

// without returns a snapshot without the record under a key.
func without(snap *lease.Snapshot, key lease.Key) *lease.Snapshot {
	left := *snap
	left.Leases = slices.DeleteFunc(slices.Clone(snap.Leases), func(l *lease.Lease) bool { return l.Key == key })
	left.Quarantined = slices.DeleteFunc(slices.Clone(snap.Quarantined), func(q lease.Quarantined) bool {
		return q.Key == key
	})
	return &left
}

// unfit returns why the node cannot take over its record own, or nil.
func (n *Node) unfit(own lease.Lease) error {
	if err := n.fits(n.network.config, own.Key); err != nil {
		return err
	}
	if older, ok := n.olderOverlap(lease.Compare(nil, n.store.snap.Leases).Added, own); ok {
		return fmt.Errorf("it overlaps the older %s of %s", older.Key, ownerOf(older.Attrs))
	}
	return nil
}

// adopt takes over our record from an earlier run of this daemon or of upstream.
func (n *Node) adopt(own lease.Lease) {
	g := lease.Grant{Lease: own}
	switch {
	case !own.Attrs.Equal(n.lease.attrs):
		n.request(Request{Verb: Update, Grant: g, Attrs: n.lease.attrs, TTL: n.opts.LeaseTTL})
	case own.Reserved():
		n.hold(g)
	default:
		n.request(Request{Verb: Renew, Grant: g})
	}
}
