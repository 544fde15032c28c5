package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// dispute describes foreign writes to our record. The node repairs the record
// after growing pauses: if two hosts share the address, each repair wakes every
// node of the cluster. Renewals wake no node, so they do not wait.
type dispute struct {
	err      error // describes the last foreign write
	at       time.Time
	count    int // foreign writes in a row
	repairAt time.Time
	anew     bool // the record has to be written although ours is right: it does not decode, or is eclipsed
}

// The pauses before the node repairs a disputed record.
const (
	firstRepair = time.Second
	mostRepair  = 5 * time.Minute
	calm        = 2 * mostRepair // the dispute ends after this time without a foreign write
)

// disputed records a foreign write to our record, and sets the time of the
// update that repairs it.
func (n *Node) disputed(err error) {
	l, d := &n.lease, &n.lease.dispute
	n.event(Warning, "lease-disputed", err.Error())
	if n.now.Sub(d.at) >= calm {
		d.count = 0
	}
	l.trouble = err
	d.err, d.at = err, n.now
	d.repairAt = n.now.Add(n.backoff(d.count, firstRepair, mostRepair))
	d.count++
}

// agreesOn records that our record holds attributes that we wrote. If they are
// the desired ones, there is nothing to repair.
func (l *leaseState) agreesOn(attrs lease.Attrs) {
	l.grant.Attrs, l.dispute.anew = attrs, false
	if attrs.Equal(l.attrs) {
		l.dispute.repairAt = time.Time{}
	}
}

// foreignWrite handles a foreign write to our record: by an operator who makes it
// a reservation, or by a second host with our address (interop E6: two hosts with
// one public address).
func (n *Node) foreignWrite(rec lease.Lease) {
	l := &n.lease
	if rec.ID != l.grant.ID {
		n.followHandle(rec)
	}
	l.grant.ID, l.grant.ModRevision = rec.ID, rec.ModRevision
	if rec.Attrs.Equal(l.grant.Attrs) || l.wrote(&rec) || rec.Attrs.Equal(l.attrs) {
		l.agreesOn(rec.Attrs)
		return
	}
	l.grant.Attrs, l.dispute.anew = rec.Attrs, false
	n.disputed(fmt.Errorf("another program wrote our record %s; does another host use the public address %s?",
		rec.Key, ownerOf(rec.Attrs)))
}

// followHandle handles a foreign write that gave our record another TTL, or
// none, which makes it a reservation.
func (n *Node) followHandle(rec lease.Lease) {
	l := &n.lease
	if rec.Reserved() {
		n.event(Info, "lease-reserved", fmt.Sprintf("lease %s is a reservation now and never expires", rec.Key))
		l.grant.TTL, l.grant.Expires = 0, time.Time{}
		l.renewAt, l.retryAt = time.Time{}, time.Time{} // there is nothing left to renew
		l.expired = false
		return
	}
	if l.grant.Reserved() {
		n.event(Info, "lease-unreserved",
			fmt.Sprintf("lease %s is no reservation any more and has to be renewed", rec.Key))
		// Without an answer the node must not hold the lease forever.
		l.grant.Expires = n.now.Add(n.opts.LeaseTTL)
	}
	l.renewAt = n.now // the answer holds the new TTL
}

// noticeGarbage repairs our record after a foreign write that does not decode.
// Until then, every upstream node of the cluster withdraws all its peers
// (interop E1: one bad record hides all).
func (n *Node) noticeGarbage(snap *lease.Snapshot) {
	l := &n.lease
	for _, q := range snap.Quarantined {
		if q.Key == l.grant.Key && q.OverwroteAt > l.grant.ModRevision {
			l.grant.ModRevision, l.dispute.anew = q.OverwroteAt, true
			n.disputed(fmt.Errorf("our record %s was overwritten: %s", q.Key, q.Reason))
		}
	}
}

// garbled reports whether an undecodable value has replaced the record of a key.
func garbled(snap *lease.Snapshot, key lease.Key) bool {
	return slices.ContainsFunc(snap.Quarantined, func(q lease.Quarantined) bool {
		return q.Key == key && q.OverwroteAt != 0
	})
}
