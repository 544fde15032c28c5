package node

import (
	"errors"
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// leaseState is the node's right to its subnet.
//
// Self is the subnet the host is programmed for; grant is the right to it. The
// two part when the right is lost or can no longer be proven: the node is then
// fenced. A fenced node keeps its data plane, because taking it down helps
// nobody, but it announces nothing until it holds a lease again (docs/adr 0005).
type leaseState struct {
	self     backend.Self
	grant    *lease.Grant
	attrs    lease.Attrs // what our record shall say
	previous lease.Key   // to ask for first

	busy     bool
	request  Request
	atLeast  int64     // no decision on a snapshot older than this revision
	retryAt  time.Time // after a failure
	attempts int
	renewAt  time.Time
	expired  bool
	trouble  error       // why there is no lease, or what is wrong with it
	disputes int         // foreign writes to our record in a row
	sent     lease.Attrs // of an update whose outcome is unknown
}

// fenced reports whether the host is programmed for a subnet that the node
// cannot prove to hold. What a former run held counts until its lease ends, as
// it would have for that run.
func (n *Node) fenced() bool {
	l, s := &n.lease, n.store.saved
	switch {
	case !l.self.Key.IsValid():
		return false
	case l.grant != nil:
		return l.expired
	case n.store.stale:
		return !s.Expires.IsZero() && !n.now.Before(s.Expires)
	}
	return true
}

func (l *leaseState) wake() time.Time {
	if l.busy {
		return time.Time{}
	}
	at := l.retryAt
	if l.grant == nil {
		return at
	}
	for _, t := range []time.Time{l.renewAt, l.grant.Expires} {
		if t.After(l.retryAt) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// followLease compares the belief with the snapshot and sends at most one
// request. It is called on every Step and must be idempotent.
func (n *Node) followLease() {
	l := &n.lease
	if n.ready.Exit != nil || !n.network.known || n.host.uplink.Link == "" {
		return
	}
	n.noticeExpiry()
	if l.busy || n.store.stale || n.store.snap == nil || n.store.snap.Revision < l.atLeast {
		return
	}
	if l.grant != nil {
		n.checkGrant()
	}
	if n.ready.Exit != nil || n.now.Before(l.retryAt) {
		return
	}
	l.retryAt = time.Time{}
	attrs, err := n.network.backend.Attrs(n.env(), n.stored(), n.host.have, n.opts.Rand)
	if err != nil {
		n.noAttrs(err)
		return
	}
	l.attrs = attrs
	if l.grant == nil {
		n.acquire()
		return
	}
	n.maintain()
}

// noticeExpiry fences the node once its lease may belong to somebody else.
// The store's clock and ours need not agree; the next renewal tells.
func (n *Node) noticeExpiry() {
	l := &n.lease
	if l.grant == nil || l.grant.Reserved() || l.expired || l.grant.Expires.IsZero() || n.now.Before(l.grant.Expires) {
		return
	}
	l.expired = true
	n.event(Error, "lease-expired", fmt.Sprintf("lease %s could not be renewed in time; it may belong to somebody else by now", l.grant.Key))
}

func (n *Node) noAttrs(err error) {
	if n.lease.self.Key.IsValid() {
		n.lease.trouble = err
		return
	}
	n.exit(1, err.Error())
}

// stored is what the node last published, so that peers need not change: this
// run's, else what the store holds, else what a former run saved.
func (n *Node) stored() lease.Attrs {
	if n.lease.self.Key.IsValid() {
		return n.lease.self.Attrs
	}
	if n.lease.grant != nil { // granted, but no snapshot shows it yet
		return n.lease.grant.Attrs
	}
	if own, ok := n.ownRecord(); ok {
		return own.Attrs
	}
	if n.store.saved != nil {
		return n.store.saved.Self.Attrs
	}
	return lease.Attrs{}
}

// ownRecord finds the record that carries our public address: IPv4's, or
// IPv6's where there is no IPv4 (interop E9). Of several, the previous key's
// or else the oldest counts.
func (n *Node) ownRecord() (lease.Lease, bool) {
	var best lease.Lease
	for _, r := range n.store.snap.Leases {
		if !n.isOurs(r.Attrs) {
			continue
		}
		if r.Key == n.lease.previous {
			return r, true
		}
		if !best.Key.IsValid() || r.CreateRevision < best.CreateRevision {
			best = r
		}
	}
	return best, best.Key.IsValid()
}

func (n *Node) isOurs(a lease.Attrs) bool {
	f := cidr.V4
	if !n.network.config.V4.Enabled() {
		f = cidr.V6
	}
	return a.IP(f).IsValid() && a.IP(f) == n.host.uplink.Public(f)
}

// checkGrant looks our record up in the snapshot.
func (n *Node) checkGrant() {
	l := &n.lease
	snap := n.store.snap
	if snap.Revision < l.grant.ModRevision {
		return
	}
	rec, ok := findLease(snap, l.grant.Key)
	switch {
	case !ok:
		n.lost(fmt.Errorf("lease %s is gone from the datastore", l.grant.Key))
	case rec.ModRevision < l.grant.ModRevision:
		// A snapshot merged from an older read; wait for a newer one.
	case !sameOwner(rec.Attrs, l.grant.Attrs):
		n.lost(fmt.Errorf("lease %s belongs to %s now", l.grant.Key, ownerOf(rec.Attrs)))
	case rec.ModRevision > l.grant.ModRevision:
		n.foreignWrite(rec)
	default:
		n.noticeGarbage(snap)
	}
	if l.grant != nil {
		n.checkOverlaps(snap)
	}
}

func sameOwner(a, b lease.Attrs) bool {
	return a.PublicIP == b.PublicIP && (a.PublicIP.IsValid() || a.PublicIPv6 == b.PublicIPv6)
}

func ownerOf(a lease.Attrs) string {
	if a.PublicIP.IsValid() {
		return a.PublicIP.String()
	}
	return a.PublicIPv6.String()
}

// foreignWrite follows a record of ours that somebody else has put: an
// operator making it a reservation, or a second host with our address (interop E6).
func (n *Node) foreignWrite(rec lease.Lease) {
	l := &n.lease
	if rec.Reserved() && !l.grant.Reserved() {
		n.event(Info, "lease-reserved", fmt.Sprintf("lease %s is a reservation now and never expires", rec.Key))
		l.grant.TTL, l.grant.Expires, l.renewAt, l.expired = 0, time.Time{}, time.Time{}, false
		l.trouble, l.attempts, l.retryAt = nil, 0, time.Time{} // there is nothing left to renew
	}
	l.grant.ID, l.grant.ModRevision = rec.ID, rec.ModRevision
	if rec.Attrs.Equal(l.grant.Attrs) || rec.Attrs.Equal(l.sent) {
		l.grant.Attrs = rec.Attrs
		return
	}
	// The record is put right, but ever more slowly: if two hosts share the
	// address, a fight would wake every node of the cluster each time.
	l.trouble = fmt.Errorf("somebody else wrote our record %s; does another host use the public address %s?", rec.Key, ownerOf(rec.Attrs))
	n.dispute(rec.Attrs)
}

// noticeGarbage puts our record right after somebody has overwritten it with
// something undecodable. Every upstream node of the cluster withdraws all its
// peers until that is done (interop E1).
func (n *Node) noticeGarbage(snap *lease.Snapshot) {
	g := n.lease.grant
	for _, q := range snap.Quarantined {
		if q.Key == g.Key && q.OverwroteAt > g.ModRevision {
			g.ModRevision = q.OverwroteAt
			n.lease.trouble = fmt.Errorf("our record %s was overwritten: %s", g.Key, q.Reason)
			n.dispute(lease.Attrs{})
		}
	}
}

// dispute takes note of what our record says instead, and sets the time for
// the update that will put it right.
func (n *Node) dispute(attrs lease.Attrs) {
	l := &n.lease
	n.event(Warning, "lease-disputed", l.trouble.Error())
	l.grant.Attrs = attrs
	l.retryAt = n.now.Add(n.backoff(l.disputes, time.Second, 5*time.Minute))
	l.disputes++
}

// storeWentBack follows a datastore that was wiped or restored from a backup:
// its revisions no longer compare with those we know. What is left of our
// record is found like that of a former run.
func (n *Node) storeWentBack(from, to int64) {
	n.lease.atLeast = 0
	if n.lease.grant != nil {
		n.lost(fmt.Errorf("the datastore went back from revision %d to %d, and with it lease %s", from, to, n.lease.grant.Key))
	}
}

// checkOverlaps gives way to an older record that covers part of our subnet.
func (n *Node) checkOverlaps(snap *lease.Snapshot) {
	g := n.lease.grant
	for _, r := range snap.Leases {
		if r.Key == g.Key || r.CreateRevision > g.CreateRevision || !r.Key.Overlaps(g.Key) {
			continue
		}
		n.event(Warning, "lease-overlap", fmt.Sprintf("lease %s overlaps the older %s of %s; giving ours up", g.Key, r.Key, ownerOf(r.Attrs)))
		n.request(Request{Verb: Release, Grant: *g})
		n.drop()
		return
	}
}

// lost notes that the right to the subnet is gone for good.
func (n *Node) lost(reason error) {
	l := &n.lease
	n.event(Error, "lease-lost", reason.Error())
	l.trouble = reason
	l.previous = l.grant.Key
	n.drop()
	if n.opts.ExitOnLoss {
		n.exit(1, reason.Error())
	}
}

// drop forgets the grant; what is programmed stays until another is held.
func (n *Node) drop() {
	l := &n.lease
	l.grant, l.expired, l.renewAt = nil, false, time.Time{}
}

// acquire asks for a subnet: our own record, then the previous subnet, then
// any free one (interop 3.5).
func (n *Node) acquire() {
	l := &n.lease
	if own, ok := n.ownRecord(); ok {
		if err := alloc.Compatible(n.network.config, own.Key); err == nil && !n.overlapsOlder(own) {
			n.adopt(own)
			return
		} else if !own.Reserved() {
			n.event(Info, "lease-unfit", fmt.Sprintf("own lease %s does not fit the network any more (%v); releasing it", own.Key, err))
			n.request(Request{Verb: Release, Grant: lease.Grant{Lease: own}})
			return
		} else if err != nil {
			l.trouble = fmt.Errorf("reservation %s of ours does not fit the network: %w", own.Key, err)
			n.once(Warning, "reservation-unfit", l.trouble.Error())
		}
	}
	key := l.previous
	if !key.IsValid() || alloc.Compatible(n.network.config, key) != nil || !alloc.Free(n.store.snap, key, lease.Key{}) {
		var err error
		if key, err = alloc.Choose(n.network.config, n.store.snap, n.opts.Rand); err != nil {
			l.trouble = err
			n.once(Error, "no-subnet", err.Error())
			n.retryLease()
			return
		}
	}
	n.request(Request{Verb: Create, Key: key, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
}

func (n *Node) overlapsOlder(own lease.Lease) bool {
	for _, r := range n.store.snap.Leases {
		if r.Key != own.Key && r.CreateRevision < own.CreateRevision && r.Key.Overlaps(own.Key) {
			return true
		}
	}
	return false
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

// maintain keeps a held lease: fit for the config, with the right attributes, renewed.
func (n *Node) maintain() {
	l := &n.lease
	if err := alloc.Compatible(n.network.config, l.grant.Key); err != nil {
		n.event(Warning, "lease-unfit", fmt.Sprintf("lease %s does not fit the network any more (%v); asking for another", l.grant.Key, err))
		if !l.grant.Reserved() {
			n.request(Request{Verb: Release, Grant: *l.grant})
		}
		n.drop()
		return
	}
	switch {
	case !l.attrs.Equal(l.grant.Attrs):
		n.request(Request{Verb: Update, Grant: *l.grant, Attrs: l.attrs, TTL: n.opts.LeaseTTL})
	case !l.renewAt.IsZero() && !n.now.Before(l.renewAt):
		n.request(Request{Verb: Renew, Grant: *l.grant})
	}
}

func (n *Node) request(r Request) {
	n.lease.busy, n.lease.request = true, r
	n.ready.Request = &r
}

// finishedRequest takes the answer of the store.
func (n *Node) finishedRequest(done Requested) {
	l := &n.lease
	req := l.request
	l.busy, l.request = false, Request{}
	var conflict *lease.ConflictError
	switch {
	case errors.As(done.Err, &conflict):
		l.atLeast = max(l.atLeast, conflict.Revision)
		n.retrySoon(req, done.Err)
	case errors.Is(done.Err, lease.ErrLost) && l.grant != nil:
		n.lost(fmt.Errorf("%s of lease %s: %w", req.Verb, req.Grant.Key, done.Err))
		n.retrySoon(req, done.Err)
	case done.Err != nil:
		l.sent = req.Attrs
		if l.trouble = fmt.Errorf("%s of lease %s: %w", req.Verb, keyOf(req), done.Err); l.attempts == 0 {
			n.event(Warning, "lease-request-failed", l.trouble.Error())
		}
		n.retryLease()
	case req.Verb == Release:
		// The snapshot without the record is the proof; until then the
		// record would be found again. A release of a changed record does nothing.
		l.retryAt = n.now.Add(n.backoff(l.attempts, 50*time.Millisecond, 5*time.Second))
		l.attempts++
	default:
		n.hold(done.Grant)
	}
}

func keyOf(r Request) lease.Key {
	if r.Verb == Create {
		return r.Key
	}
	return r.Grant.Key
}

// retrySoon follows an answer that a newer snapshot will explain.
func (n *Node) retrySoon(req Request, err error) {
	l := &n.lease
	n.event(Info, "lease-conflict", fmt.Sprintf("%s of %s: %v; trying again", req.Verb, keyOf(req), err))
	l.retryAt = n.now.Add(n.backoff(l.attempts, 5*time.Millisecond, 5*time.Second))
	l.attempts++
}

// retryLease follows a failure: at most a minute apart, and well before the lease ends.
func (n *Node) retryLease() {
	l := &n.lease
	most := time.Minute
	if l.grant != nil && l.grant.TTL > 0 {
		most = min(most, max(l.grant.TTL/10, 100*time.Millisecond))
	}
	l.retryAt = n.now.Add(n.backoff(l.attempts, 100*time.Millisecond, most))
	l.attempts++
}

// hold takes a grant that the store just confirmed.
func (n *Node) hold(g lease.Grant) {
	l := &n.lease
	fresh := l.grant == nil
	l.renewAt = time.Time{}
	if !g.Reserved() {
		l.renewAt = renewTime(g.Expires.Add(-g.TTL), g.TTL, n.opts.RenewMargin)
	}
	if l.expired || fresh {
		n.event(Info, "lease-acquired", fmt.Sprintf("holding subnet %s", describeGrant(g)))
	}
	if l.grant != nil && l.grant.Attrs.Equal(g.Attrs) {
		l.disputes = 0
	}
	l.grant, l.expired, l.attempts, l.trouble = &g, false, 0, nil
	l.retryAt = time.Time{}
	l.previous = g.Key
}

func describeGrant(g lease.Grant) string {
	if g.Reserved() {
		return g.Key.String() + " (reservation)"
	}
	return fmt.Sprintf("%s for %s", g.Key, g.TTL)
}

// renewTime is counted from when the TTL began: after a third of the TTL, or when only the margin is left if that
// is earlier. Renewing early costs one small request and lets a lease outlive
// two thirds of its TTL without a datastore.
func renewTime(began time.Time, ttl, margin time.Duration) time.Time {
	after := ttl / 3
	if margin < ttl {
		after = min(after, ttl-margin)
	}
	return began.Add(after)
}

func findLease(snap *lease.Snapshot, key lease.Key) (lease.Lease, bool) {
	for _, l := range snap.Leases {
		if l.Key == key {
			return l, true
		}
	}
	return lease.Lease{}, false
}
