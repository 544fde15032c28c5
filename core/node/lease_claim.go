package node

import (
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
)

// acquire asks for a subnet: our own record, then the previous subnet, then
// any free one (interop 3.5).
func (n *Node) acquire() {
	l := &n.lease
	if own, ok := n.ownRecord(); ok {
		err := n.unfit(own)
		switch {
		case err == nil:
			n.adopt(own)
			return
		case !own.Reserved():
			n.event(Info, "lease-unfit", fmt.Sprintf("own lease %s cannot be used any more (%v); releasing it", own.Key, err))
			n.request(Request{Verb: Release, Grant: lease.Grant{Lease: own}})
			return
		}
		l.trouble = fmt.Errorf("reservation %s of ours cannot be used: %w", own.Key, err)
		n.once(Warning, "reservation-unfit", l.trouble.Error())
	}
	key, ok := n.formerKey()
	if !ok {
		var err error
		if key, err = alloc.Choose(n.network.config, n.claimed(), n.opts.Rand); err != nil {
			l.trouble = err
			n.once(Error, "no-subnet", err.Error())
			n.retryLease()
			return
		}
	}
	n.request(Request{Verb: Create, Key: key, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
}

// claimed returns the snapshot together with the records that the datastore lost
// by accident: those peers will ask for the same subnets again.
func (n *Node) claimed() *lease.Snapshot {
	snap := *n.store.snap
	snap.Leases = slices.Concat(snap.Leases, n.store.lost.peers)
	return &snap
}

// formerKeys are subnets that were ours: this run's or the subnet file's, then
// the state file's, where the subnet file is damaged.
func (n *Node) formerKeys() []lease.Key {
	keys := []lease.Key{n.lease.previous}
	if n.store.saved != nil {
		keys = append(keys, n.store.saved.Self.Key)
	}
	return keys
}

// formerKey is a subnet that was ours, fits and is free.
func (n *Node) formerKey() (lease.Key, bool) {
	for _, k := range n.formerKeys() {
		if k.IsValid() && alloc.Compatible(n.network.config, k) == nil && alloc.Free(n.store.snap, k, lease.Key{}) {
			return k, true
		}
	}
	return lease.Key{}, false
}

// unfit says why a record of ours cannot be taken over.
func (n *Node) unfit(own lease.Lease) error {
	if err := n.fits(own.Key); err != nil {
		return err
	}
	if older, ok := n.olderOverlap(lease.Compare(nil, n.store.snap.Leases).Added, own); ok {
		return fmt.Errorf("it overlaps the older %s of %s", older.Key, ownerOf(older.Attrs))
	}
	return nil
}

// adopt takes a record of ours over, from a former run of ours or of upstream.
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
