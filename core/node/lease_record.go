package node

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// ownRecord finds the record that carries our public address: IPv4's, or
// IPv6's where there is no IPv4 (interop E9). Of several, that of a former key
// or else the oldest counts.
func (n *Node) ownRecord() (lease.Lease, bool) {
	if a := n.assigned(); a != nil {
		return findLease(n.store.snap, a.Key)
	}
	var own []lease.Lease
	for _, r := range n.store.snap.Leases {
		if n.isOurs(&r.Attrs) {
			own = append(own, *r)
		}
	}
	for _, former := range n.formerKeys() {
		if i := slices.IndexFunc(own, func(r lease.Lease) bool { return r.Key == former }); i >= 0 {
			return own[i], true
		}
	}
	if len(own) == 0 {
		return lease.Lease{}, false
	}
	return slices.MinFunc(own, func(a, b lease.Lease) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }), true
}

func (n *Node) isOurs(a *lease.Attrs) bool {
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
	now := agreement{snap, l.grant.Key, l.grant.ModRevision, l.self.Key, n.host.uplink, n.network.doc.Revision}
	if snap.Revision < l.grant.ModRevision {
		n.doubtGrant()
		return
	}
	l.doubtAt = time.Time{}
	if now == l.agreed {
		return
	}
	rec, ok := findLease(snap, l.grant.Key)
	switch {
	case n.assigned() != nil:
		n.checkAssigned(rec, ok)
	case !ok:
		n.lost(fmt.Errorf("lease %s is gone from the datastore", l.grant.Key))
	case rec.ModRevision < l.grant.ModRevision:
		n.noticeGarbage(snap)
		n.noticeOlderRecord(snap, rec)
	case !sameOwner(rec.Attrs, l.grant.Attrs) && !rec.Attrs.Equal(l.sent):
		n.lost(fmt.Errorf("lease %s belongs to %s now", l.grant.Key, ownerOf(rec.Attrs)))
	case rec.ModRevision > l.grant.ModRevision:
		n.foreignWrite(rec)
	default:
		n.noticeGarbage(snap)
	}
	news := now.news(l.agreed)
	if l.grant != nil {
		n.checkOverlaps(news)
	}
	if l.grant != nil {
		n.checkCopies(news)
	}
	if l.grant != nil && l.grant.ModRevision == now.modified {
		l.agreed = now
	}
}

// agreement is a grant and a snapshot that have been compared. As long as both
// stay, there is nothing new to find among thousands of records.
type agreement struct {
	snap     *lease.Snapshot
	key      lease.Key
	modified int64
	self     lease.Key // what the host is programmed for, which tells more records to be ours
	uplink   uplink.Uplink
	config   int64 // the revision of the one in force
}

// news are the records to compare the grant with: if only the snapshot is
// another than at the last agreement, those that are new in it.
func (a agreement) news(last agreement) []*lease.Lease {
	var old []*lease.Lease
	if same := (agreement{last.snap, a.key, a.modified, a.self, a.uplink, a.config}); last.snap != nil && last == same {
		old = last.snap.Leases
	}
	c := lease.Compare(old, a.snap.Leases)
	return append(c.Added, c.Changed...)
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

// noticeRestore compares two snapshots. A datastore that was wiped or restored
// from a backup has another history, in which our revisions mean nothing. Its
// revision may have passed ours by the time we see it.
func (n *Node) noticeRestore(before, now *lease.Snapshot) {
	switch {
	case now.Revision < before.Revision:
		n.startOver(now, fmt.Sprintf("the datastore went back from revision %d to %d", before.Revision, now.Revision))
	case now.History != before.History && before.History != 0:
		n.startOver(now, fmt.Sprintf("the datastore is another one, with id %x instead of %x", now.History, before.History))
	}
}

// doubtAfter is how long snapshots may lack our last write before the node asks
// the store about it: requests take up to some seconds.
const doubtAfter = 10 * time.Second

// doubtGrant follows snapshots that lack our last write although they follow the
// store. They may just be late. Or the store lost its data after that write and
// has another history by now: then neither revision nor identity need differ from
// those of the snapshot before, and only the answer to a renewal tells.
func (n *Node) doubtGrant() {
	l := &n.lease
	switch {
	case l.doubtAt.IsZero() || n.now.Before(l.doubtAt):
		return
	case !n.synced():
		l.doubtAt = n.now.Add(doubtAfter)
	default:
		l.doubtAt = time.Time{}
		if !l.grant.Reserved() {
			l.renewAt = n.now
		}
	}
}

// noticeOlderRecord follows a snapshot that is newer than our last write, while
// our record in it is older. Either the record stands for one that does not
// decode, which noticeGarbage has seen, or the write was never made in this history.
func (n *Node) noticeOlderRecord(snap *lease.Snapshot, rec lease.Lease) {
	if !garbled(snap, rec.Key) {
		n.startOver(snap, fmt.Sprintf("at revision %d the datastore lacks our write of revision %d",
			snap.Revision, n.lease.grant.ModRevision))
	}
}

// startOver follows a datastore with another history. Our record as an earlier
// revision of it counts, and is brought up to date; anything else under our key
// is not ours.
func (n *Node) startOver(snap *lease.Snapshot, why string) {
	l := &n.lease
	l.atLeast, l.agreed = 0, agreement{}
	n.event(Warning, "store-restored", why)
	if l.grant == nil {
		return
	}
	rec, ok := findLease(snap, l.grant.Key)
	switch {
	case n.assigned() != nil:
		n.drop() // the record is ours whatever its revision, and found again
	case ok && n.earlier(rec):
		l.grant.Lease = rec
		l.renewAt = n.now // which tells when it ends
		if rec.Reserved() {
			l.grant.TTL, l.grant.Expires, l.renewAt = 0, time.Time{}, time.Time{}
		}
	default:
		n.lost(fmt.Errorf("%s, and with it lease %s", why, l.grant.Key))
	}
}

// earlier reports whether a record is our own as it once was. The revision of
// creation alone does not prove it: an empty datastore gives the same ones again.
func (n *Node) earlier(rec lease.Lease) bool {
	g := n.lease.grant
	return rec.CreateRevision == g.CreateRevision && (sameOwner(rec.Attrs, g.Attrs) || sameData(rec.Attrs, g.Attrs))
}

// checkCopies gives up backend data that an older record of another host has
// as well: a host that for a while had another's address took over its record,
// VTEP and all, and now each would refuse the other for good.
func (n *Node) checkCopies(news []*lease.Lease) {
	g := n.lease.grant
	for _, r := range news {
		if r.CreateRevision < g.CreateRevision && sameData(r.Attrs, g.Attrs) && !n.isSelf(r) {
			n.event(Warning, "lease-copied", fmt.Sprintf("lease %s of %s is older and has our backend data; drawing other",
				r.Key, ownerOf(r.Attrs)))
			n.lease.copied = true
			return
		}
	}
}

func sameData(a, b lease.Attrs) bool {
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		return len(a.Data(f)) > 0 && bytes.Equal(a.Data(f), b.Data(f))
	})
}

// checkOverlaps gives way to an older record that covers part of our subnet
// (interop E7). A reservation stays in the store, for its operator to mend.
func (n *Node) checkOverlaps(news []*lease.Lease) {
	g := n.lease.grant
	older, ok := n.olderOverlap(news, g.Lease)
	if !ok {
		return
	}
	n.event(Warning, "lease-overlap", fmt.Sprintf("lease %s overlaps the older %s of %s; giving ours up",
		g.Key, older.Key, ownerOf(older.Attrs)))
	if !g.Reserved() {
		n.request(Request{Verb: Release, Grant: *g})
	}
	n.drop()
}

// olderOverlap finds the record that our own has to give way to. One that lies
// outside the network is nobody's subnet and drives nobody away.
func (n *Node) olderOverlap(records []*lease.Lease, own lease.Lease) (*lease.Lease, bool) {
	for _, r := range records {
		if r.Key != own.Key && r.CreateRevision < own.CreateRevision && r.Key.Overlaps(own.Key) && n.inNetwork(r.Key) {
			return r, true
		}
	}
	return nil, false
}

func (n *Node) inNetwork(key lease.Key) bool {
	for _, f := range cidr.Families {
		p, network := key.Of(f), n.network.config.Of(f).Network
		if p.IsValid() && network.IsValid() && !cidr.Contains(network, p) {
			return false
		}
	}
	return true
}

func findLease(snap *lease.Snapshot, key lease.Key) (lease.Lease, bool) {
	for _, l := range snap.Leases {
		if l.Key == key {
			return *l, true
		}
	}
	return lease.Lease{}, false
}
