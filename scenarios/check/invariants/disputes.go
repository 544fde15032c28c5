package invariants

import (
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
)

const (
	// calmBound is the time without a foreign write after which a dispute is over:
	// ten minutes, and some time for a change to reach the node.
	calmBound = 11 * time.Minute
	// repairPause is the pause before the first repair of a dispute. Each further
	// one doubles it, up to mostRepairPause.
	repairPause     = 1200 * time.Millisecond
	mostRepairPause = 6 * time.Minute
	// retryPause is the longest pause after a failed request.
	retryPause = 75 * time.Second
)

// dispute follows the foreign writes to the record of a node's subnet, which the
// node has to repair.
type dispute struct {
	key      lease.Key     // of the record
	writes   int           // in a row: with less than calmBound between two of them
	at       time.Duration // of the last one
	revision int64         // of the last one
	open     bool          // the record is not as the node wrote it
	since    time.Duration // since when the node could have repaired it
}

// noteDispute follows a write to the record of a node's subnet.
func (n *Node) noteDispute(w store.Write) {
	d, now := &n.dispute, n.all.elapsed()
	d.open = false
	if w.New != nil && (!w.New.Expiring || w.Old != nil && !w.Old.Expiring) {
		n.deadlines.expires = time.Time{} // the node may know that the record is or was a reservation
	}
	foreign := w.Client != n.name && w.New != nil && w.Old != nil
	if !foreign || w.New.Flaw == "" && owner(w.New.Lease.Attrs) != n.lastAddr {
		return // the node repaired it, or lost it
	}
	if w.New.Flaw == "" && w.Old.Flaw == "" && w.New.Lease.Attrs.Equal(w.Old.Lease.Attrs) {
		return // only the TTL differs
	}
	if w.New.Flaw == "" && restoresWays(w.Old.Lease, w.New.Lease) {
		return // with the other records of that time, the node may want it so
	}
	if now-d.at > calmBound {
		d.writes = 0
	}
	d.writes++
	d.at, d.since = now, now
	d.key, d.open = n.key, true
	d.revision = n.all.about.Store.Revision()
}

// restoresWays reports whether a record is an earlier one, with other ways and nothing else.
func restoresWays(was, now lease.Lease) bool {
	was.Attrs.Ways, now.Attrs.Ways = lease.Ways{}, lease.Ways{}
	return now.ModRevision < was.ModRevision && was.Attrs.Equal(now.Attrs)
}

// noteRequest follows the requests of the node: while one is under way there is
// no other, and a failed one is followed by a pause.
func (n *Node) noteRequest(done *node.Requested) {
	if done != nil && done.Err != nil {
		n.dispute.since = n.all.elapsed() + retryPause
	}
}

// checkDisputes is called after every event: a node repairs its record after a
// pause that grows with the foreign writes of the present dispute alone.
func (i *Invariants) checkDisputes() error {
	now := i.elapsed()
	for _, name := range i.order {
		n := i.nodes[name]
		d := &n.dispute
		if !d.open || d.key != n.key { // a node that gave up the subnet leaves its record
			continue
		}
		if n.excusedFromRepair() {
			d.since = max(d.since, now)
			continue
		}
		pause := min(repairPause<<min(d.writes-1, 20), mostRepairPause) + conflictBound
		if now-d.since > pause {
			return fmt.Errorf("%s has not repaired its record %s for %s, after %d foreign writes in a row",
				name, n.key, now-d.since, d.writes)
		}
	}
	return nil
}

// excusedFromRepair reports whether the node cannot repair its record at present,
// or does not know yet that it has to.
func (n *Node) excusedFromRepair() bool {
	view := n.client.View()
	return n.stands() || !n.holds || n.Twinned || n.deadlines.asking ||
		!view.Synced || view.Snapshot.Revision < n.dispute.revision ||
		n.all.bad || alloc.Compatible(n.all.config, n.key) != nil ||
		len(n.all.storeFaults(n.name)) > 0
}
