package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// dispute is what others have done to our record. It is put right, but ever
// more slowly: if two hosts share the address, a fight would wake every node of
// the cluster each time. Renewals, which wake nobody, do not wait for that.
type dispute struct {
	err     error // what was done last
	at      time.Time
	count   int // how often in a row
	mendAt  time.Time
	garbled bool // the record does not decode
}

// The pauses before a disputed record is put right.
const (
	firstMend = time.Second
	mostMend  = 5 * time.Minute
	calm      = 2 * mostMend // without another foreign write: the dispute is over
)

// disputed takes note that somebody else wrote our record, and sets the time
// for the update that will put it right.
func (n *Node) disputed(err error) {
	l, d := &n.lease, &n.lease.dispute
	n.event(Warning, "lease-disputed", err.Error())
	if n.now.Sub(d.at) >= calm {
		d.count = 0
	}
	l.trouble = err
	d.err, d.at = err, n.now
	d.mendAt = n.now.Add(n.backoff(d.count, firstMend, mostMend))
	d.count++
}

// agreesOn takes note that our record says something of ours. If that is what it
// shall say, there is nothing to put right.
func (l *leaseState) agreesOn(attrs lease.Attrs) {
	l.grant.Attrs, l.dispute.garbled = attrs, false
	if attrs.Equal(l.attrs) {
		l.dispute.mendAt = time.Time{}
	}
}

// foreignWrite follows a record of ours that somebody else has put: an
// operator making it a reservation, or a second host with our address (interop E6).
func (n *Node) foreignWrite(rec lease.Lease) {
	l := &n.lease
	if rec.ID != l.grant.ID {
		n.followHandle(rec)
	}
	l.grant.ID, l.grant.ModRevision = rec.ID, rec.ModRevision
	if rec.Attrs.Equal(l.grant.Attrs) || rec.Attrs.Equal(l.sent) || rec.Attrs.Equal(l.attrs) {
		l.agreesOn(rec.Attrs)
		return
	}
	l.grant.Attrs, l.dispute.garbled = rec.Attrs, false
	n.disputed(fmt.Errorf("somebody else wrote our record %s; does another host use the public address %s?",
		rec.Key, ownerOf(rec.Attrs)))
}

// followHandle follows a record of ours that somebody has put on another TTL,
// or on none, which makes it a reservation.
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
		n.event(Info, "lease-unreserved", fmt.Sprintf("lease %s is no reservation any more and has to be renewed", rec.Key))
	}
	l.renewAt = n.now // the answer tells how long it lasts
}

// noticeGarbage puts our record right after somebody has overwritten it with
// something undecodable. Every upstream node of the cluster withdraws all its
// peers until that is done (interop E1).
func (n *Node) noticeGarbage(snap *lease.Snapshot) {
	l := &n.lease
	for _, q := range snap.Quarantined {
		if q.Key == l.grant.Key && q.OverwroteAt > l.grant.ModRevision {
			l.grant.ModRevision, l.dispute.garbled = q.OverwroteAt, true
			n.disputed(fmt.Errorf("our record %s was overwritten: %s", q.Key, q.Reason))
		}
	}
}

// garbled reports whether a record stands for one that does not decode.
func garbled(snap *lease.Snapshot, key lease.Key) bool {
	return slices.ContainsFunc(snap.Quarantined, func(q lease.Quarantined) bool {
		return q.Key == key && q.OverwroteAt != 0
	})
}
