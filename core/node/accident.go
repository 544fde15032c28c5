package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// keepFor is how long peers are kept whose records were lost by accident. A node
// that runs writes its record again within seconds of reaching the datastore.
const keepFor = 5 * time.Minute

// lostRecords are peers' records that the datastore lost by accident: it was
// wiped, or restored from an empty or older state. Nothing says that these peers
// have left, so the node serves them until they are back or the period ends.
type lostRecords struct {
	peers []*lease.Lease // sorted by key
	until time.Time      // end of the period after the last accident
}

// noticeAccident compares two consecutive snapshots. If our own record and most of
// the others are gone although we are running, the datastore was wiped: so many
// nodes do not leave at once. A datastore with another history cannot tell which
// nodes have left.
func (n *Node) noticeAccident(before, now *lease.Snapshot) {
	kept := &n.store.lost
	c := lease.Compare(before.Leases, now.Leases)
	still := stillMissing(kept.peers, append(slices.Clone(c.Added), c.Changed...))
	var peers []*lease.Lease
	if otherHistory(before, now) || n.lostOwn(c.Gone, now) && n.lostMost(c, before) {
		gone := slices.DeleteFunc(slices.Clone(c.Gone), n.identity().Owned)
		peers = yielding(stillMissing(gone, now.Leases))
		kept.until = n.now.Add(keepFor)
	}
	if len(peers) > 0 {
		n.event(Warning, "peers-kept", fmt.Sprintf("the datastore lost the records of %d peers at once; "+
			"serving these for %s, or until they are back", len(peers), keepFor))
	}
	peers = append(peers, stillMissing(still, peers)...)
	if len(kept.peers) > 0 && len(peers) == 0 {
		n.event(Info, "peers-back", "all peers whose records the datastore lost are back")
	}
	slices.SortFunc(peers, func(a, b *lease.Lease) int { return a.Key.Compare(b.Key) })
	kept.peers = peers
}

// otherHistory reports whether a datastore was replaced or restored.
func otherHistory(before, now *lease.Snapshot) bool {
	return now.Revision < before.Revision || now.History != before.History && before.History != 0
}

// lostOwn reports whether our own record is among those that are gone.
func (n *Node) lostOwn(gone []*lease.Lease, now *lease.Snapshot) bool {
	own := n.identity()
	return slices.ContainsFunc(gone, own.Owned) && !slices.ContainsFunc(now.Leases, own.Owned)
}

// lostMost reports whether most of the peers' records are gone or have been
// written again since.
func (n *Node) lostMost(c lease.Changes, before *lease.Snapshot) bool {
	anew := map[lease.Key]int64{}
	for _, p := range c.Changed {
		anew[p.Key] = p.CreateRevision
	}
	others, back := 0, 0
	own := n.identity()
	for _, p := range before.Leases {
		if own.Owned(p) {
			continue
		}
		others++
		created, changed := anew[p.Key]
		if changed && created != p.CreateRevision {
			back++
		}
	}
	gone := slices.DeleteFunc(slices.Clone(c.Gone), own.Owned)
	return 2*(len(gone)+back) > others
}

// yielding returns lost peers so that any record in the datastore takes precedence:
// if two peers claim the same subnet, address, MAC or key, the older one is served. A
// datastore that has lost its data may count its revisions from one.
func yielding(peers []*lease.Lease) []*lease.Lease {
	for i, p := range peers {
		kept := *p
		kept.CreateRevision = lease.Youngest
		peers[i] = &kept
	}
	return peers
}

// stillMissing returns the peers whose subnets no record covers.
func stillMissing(peers, records []*lease.Lease) []*lease.Lease {
	return slices.DeleteFunc(slices.Clone(peers), func(p *lease.Lease) bool {
		return slices.ContainsFunc(records, func(r *lease.Lease) bool { return r.Key.Overlaps(p.Key) })
	})
}

// giveUpLost stops serving lost peers once their period is over.
func (n *Node) giveUpLost() {
	kept := &n.store.lost
	if most := n.now.Add(keepFor); kept.until.After(most) {
		kept.until = most // a former run saved it by another clock
	}
	if len(kept.peers) == 0 || n.now.Before(kept.until) {
		return
	}
	n.event(Warning, "peers-given-up", fmt.Sprintf("%d peers did not come back within %s: the first is %s of %s",
		len(kept.peers), keepFor, kept.peers[0].Key, ownerOf(kept.peers[0].Attrs)))
	kept.peers, n.store.changed = nil, true
}

// lostNotes tells an operator about the peers that are kept.
func (n *Node) lostNotes() []string {
	kept := n.store.lost
	if len(kept.peers) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the datastore lost the records of %d peers at once; "+
		"they are served until they are back, or until %s", len(kept.peers), kept.until.UTC().Format(time.RFC3339))}
}
