package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
)

// This file holds the quota: at the servers, one node holds one lease in each network and family, and one
// reservation. Otherwise one node could take all subnets.

// Identity is how a server tells that two records belong to one node.
type Identity string

// The ways to tell it. A public address always belongs to one node.
const (
	// Auto takes a certificate that holds addresses for that of one node.
	Auto Identity = "auto"
	// Certificate takes each name in a certificate for that of one node.
	Certificate Identity = "certificate"
	// Address takes no name for that of one node: several nodes share a certificate.
	Address Identity = "address"
)

// ParseIdentity reads the value of a flag.
func ParseIdentity(text string) (Identity, error) {
	switch id := Identity(text); id {
	case Auto, Certificate, Address:
		return id, nil
	}
	return "", fmt.Errorf("%q: want %s, %s or %s", text, Auto, Certificate, Address)
}

// holderOf returns the node that sends a request with the attributes of a record.
func (s *Server) holderOf(r *http.Request, attrs lease.Attrs, snap *lease.Snapshot) alloc.Holder {
	network, _ := networkOf(snap.Config) // without a config, the IPv4 address counts
	h := alloc.Holder{Attrs: attrs, Network: network}
	cert := certificate(r)
	own := s.o.Identity == Certificate || s.o.Identity == Auto && cert != nil && len(cert.IPAddresses) > 0
	if s.o.OwnRecords && own {
		h.Name = nameOf(cert)
	}
	return h
}

// errHeld marks the refusal of a second lease or reservation. Another try meets the same refusal.
var errHeld = errors.New("a node holds one")

// heldError refuses a second lease. For nodes of this release it is a conflict: the node looks at the
// record that the error names, and takes it over.
func heldError(what string, l *lease.Lease) error {
	return fmt.Errorf("this node (%s) holds the %s %s already, and %w: renew, update or move it, or end it with "+
		"\"flannelctl leases release %[3]s --owner %[1]s\"; %[5]w", l.Attrs.PublicIP, what, l.Key, errHeld,
		&lease.ConflictError{Key: l.Key, Revision: l.ModRevision})
}

// identified refuses a record of a new lease without the public address that identifies its node: nothing would count
// the leases of that node.
func identified(key lease.Key, attrs lease.Attrs) error {
	if key.V4.IsValid() && !attrs.PublicIP.IsValid() || !attrs.PublicIP.IsValid() && !attrs.PublicIPv6.IsValid() {
		return bad(fmt.Errorf("record of %s: the public address of its node is missing", key))
	}
	return nil
}

// take gives a node a new lease. The lease that the same certificate holds under another address
// makes room for it: the node has a new address.
func (s *Server) take(c call, key lease.Key, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	snap, err := c.feed.latest(c.Context())
	if err != nil {
		return lease.Grant{}, err
	}
	h, store := s.holderOf(c.Request, attrs, snap), c.feed.store
	switch held := h.Other(snap.Leases, key); {
	case held == nil:
		g, err := store.Create(c.Context(), key, attrs, ttl)
		if err != nil {
			return lease.Grant{}, err
		}
		return s.settle(c, h, g)
	case h.HasAddress(&held.Attrs):
		return lease.Grant{}, heldError("lease", held)
	default:
		return store.Move(c.Context(), lease.Grant{Lease: *held}, key, attrs, ttl)
	}
}

// latest returns the latest snapshot, even if the datastore is not followed now. A new server waits for its first one.
func (f *feed) latest(ctx context.Context) (*lease.Snapshot, error) {
	if v, _ := f.now(); v.Snapshot != nil {
		return v.Snapshot, nil
	}
	return f.reach(ctx, 0)
}

// settle gives a new lease up if the node has an older one: it has asked several servers, or one several times,
// before they could see that.
func (s *Server) settle(c call, h alloc.Holder, g lease.Grant) (lease.Grant, error) {
	if err := c.feed.catchUp(c.Context()); err != nil {
		return g, nil // the node needs no more than the lease
	}
	snap, err := c.feed.synced()
	if err != nil {
		return g, nil
	}
	older := h.Other(snap.Leases, g.Key)
	if older == nil || older.CreateRevision > g.CreateRevision {
		return g, nil
	}
	if err := c.feed.store.Release(c.Context(), g); err != nil {
		return lease.Grant{}, err
	}
	return lease.Grant{}, heldError("lease", older)
}

// mayReserve refuses a reservation if the node holds another one that is older than a revision.
func mayReserve(h alloc.Holder, snap *lease.Snapshot, key lease.Key, before int64) error {
	for _, l := range snap.Leases {
		counts := l.Reserved() && l.Key != key && l.Key.V4.IsValid() && h.HasAddress(&l.Attrs)
		if counts && l.ModRevision < before {
			return heldError("reservation", l)
		}
	}
	return nil
}

// mayFree refuses to make the reservation of a subnet a lease if the node holds a lease.
func mayFree(h alloc.Holder, snap *lease.Snapshot, key lease.Key) error {
	if held := h.Other(snap.Leases, key); held != nil {
		return heldError("lease", held)
	}
	return nil
}

// confirm checks the quota again once a change is written, as another request may have been faster, perhaps at another
// server. If the check refuses the record of a subnet, confirm undoes the change.
func (s *Server) confirm(
	c call, key lease.Key, check func(*lease.Snapshot, *lease.Lease) error, undo func(context.Context, lease.Lease) error,
) error {
	if err := c.feed.catchUp(c.Context()); err != nil {
		return nil // the change is written, and the client needs no more
	}
	l, snap, err := c.feed.lease(key)
	if err != nil {
		return nil
	}
	if err := check(snap, l); err != nil {
		return errors.Join(err, undo(c.Context(), *l))
	}
	return nil
}
