package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// besides is the node's memory of its own reservations beside its lease: those with its key,
// which no other node has, or with its address of the family that decides.
type besides struct {
	written map[lease.Key]lease.ByFamily // the reservations that this run has written, and with which addresses

	retryAt  time.Time // after a failure; the node's own record does not wait for it
	attempts int

	snap *lease.Snapshot // the last snapshot without one to write, and the node's addresses then
	own  lease.ByFamily
}

// present returns the addresses that the node publishes from now on.
func (n *Node) present() lease.ByFamily {
	return lease.ByFamily{V4: n.host.uplink.Public(cidr.V4), V6: n.host.uplink.Public(cidr.V6)}
}

// outdatedBeside returns a reservation of the node, beside its lease, that names a former
// address. The node cannot use it, or could not when it asked for the lease. Peers take
// records with one key, or one MAC address, and different addresses for two hosts, and serve
// the older one, so they would send to the subnet of the reservation.
func (n *Node) outdatedBeside() (lease.Lease, bool) {
	b := &n.lease.besides
	own := n.present()
	if b.snap == n.store.snap && b.own == own || n.assigned() != nil {
		return lease.Lease{}, false
	}
	for _, r := range n.store.snap.Leases {
		if n.isBeside(r) && n.outdated(&r.Attrs) {
			return *r, true
		}
	}
	b.snap, b.own = n.store.snap, own
	return lease.Lease{}, false
}

// outdated reports whether a reservation of the node names other addresses than the node's
// present ones. Without a key a family that is off may stay in it.
func (n *Node) outdated(a *lease.Attrs) bool {
	own := &n.lease.attrs
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		both := a.IP(f).IsValid() && own.IP(f).IsValid()
		return a.IP(f) != own.IP(f) && (both || n.transition.Set().HasKey())
	})
}

// isBeside reports whether a record is a reservation beside the lease to which the node may
// give its present addresses. It does that once for each of its addresses: a second host with a
// copy of the key file would do the same forever.
func (n *Node) isBeside(r *lease.Lease) bool {
	l := &n.lease
	// No other record has the data, as a rule: of thousands this is all that is compared.
	if !r.Reserved() || !sameData(r.Attrs, l.attrs) {
		return false
	}
	if isGrant := l.grant != nil && l.grant.Key == r.Key; isGrant {
		return false
	}
	ours := n.transition.Set().HasKey() || n.identity().Publishes(&r.Attrs)
	return ours && n.assigned() == nil && l.besides.written[r.Key] != n.present()
}

// readdress gives a reservation the node's present addresses.
func (n *Node) readdress(r lease.Lease) {
	attrs := n.lease.attrs
	if !n.transition.Set().HasKey() {
		attrs = r.Attrs
		attrs.PublicIP = cmp.Or(n.lease.attrs.PublicIP, attrs.PublicIP)
		attrs.PublicIPv6 = cmp.Or(n.lease.attrs.PublicIPv6, attrs.PublicIPv6)
	}
	n.request(Request{Verb: Update, Grant: lease.Grant{Lease: r}, Attrs: attrs, TTL: n.opts.LeaseTTL})
}

// isReaddress reports whether a request is one of readdress.
func (l *leaseState) isReaddress(r Request) bool {
	return r.Verb == Update && l.grant != nil && r.Grant.Key != l.grant.Key
}

// readdressed handles the answer to a request of readdress. The node's own lease does not
// depend on it.
func (n *Node) readdressed(req Request, done Requested) {
	l, b := &n.lease, &n.lease.besides
	var conflict *lease.ConflictError
	switch {
	case errors.As(done.Err, &conflict):
		l.atLeast = max(l.atLeast, conflict.Revision)
	case done.Err != nil && !errors.Is(done.Err, lease.ErrLost):
		b.retryAt = n.now.Add(n.backoff(b.attempts, 100*time.Millisecond, time.Minute))
		b.attempts++
	default:
		b.retryAt, b.attempts = time.Time{}, 0
		l.atLeast = max(l.atLeast, done.Grant.ModRevision)
		l.dispute.anew = true // of one host's records, peers serve the one written last
		b.written[req.Grant.Key] = n.present()
		n.event(Info, "reservation-updated",
			fmt.Sprintf("reservation %s of this host has its present address now", req.Grant.Key))
	}
}
