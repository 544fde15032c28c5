package node

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/identity"
	"github.com/flanneld/flannel/core/uplink"
)

// ownRecord returns the record with our public address: the IPv4 address, or the
// IPv6 address in a network without IPv4 (interop E9: IPv6-only nodes). Of
// several, it takes an unfit reservation last, and prefers one with a former key,
// then one in whose subnet the host has an address, as on the pods' bridge: another
// program may have written the others. Then it prefers the youngest: an older one may be
// left over from a process that was killed before the answer, and whose record the next
// process did not see in time.
func (n *Node) ownRecord() (lease.Lease, bool) {
	if a := n.assigned(); a != nil {
		return findLease(n.store.snap, a.Key)
	}
	var own []lease.Lease
	ours := n.identity()
	for _, r := range n.store.snap.Leases {
		if ours.Publishes(&r.Attrs) || ours.Wrote(r) {
			own = append(own, *r)
		}
	}
	if kept, ok := n.keptRecord(own); ok {
		return kept, true
	}
	if mine := n.withOurKey(); len(own) == 0 {
		own = mine
	} else {
		own = append(own, n.former(mine)...)
	}
	unusable := func(r lease.Lease) bool { return r.Reserved() && n.unfit(r) != nil }
	if rest := slices.DeleteFunc(slices.Clone(own), unusable); len(rest) > 0 {
		own = rest
	}
	for _, former := range n.formerKeys() {
		if i := slices.IndexFunc(own, func(r lease.Lease) bool { return r.Key == former }); i >= 0 {
			return own[i], true
		}
	}
	if len(own) == 0 {
		return lease.Lease{}, false
	}
	elsewhere := func(r lease.Lease) bool { return !n.hasAddressIn(r.Key) }
	if rest := slices.DeleteFunc(slices.Clone(own), elsewhere); len(rest) > 0 {
		own = rest
	}
	byAge := func(a, b lease.Lease) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	return slices.MaxFunc(own, byAge), true
}

// withOurKey returns the records with the node's public key, which no other node can
// use. The node wrote them under a former address, of which it has no memory. If another
// host has taken a record from this run, it has a copy of the key, and would take it again.
func (n *Node) withOurKey() []lease.Lease {
	l := &n.lease
	if l.grant != nil || !n.transition.Set().HasKey() {
		return nil
	}
	var own []lease.Lease
	for _, r := range n.store.snap.Leases {
		if r.Attrs.BackendType == l.attrs.BackendType && sameData(r.Attrs, l.attrs) && !l.ceded[r.Key] {
			own = append(own, *r)
		}
	}
	return own
}

// former returns the records under a former key. While such a record with the node's public key
// exists, peers refuse a younger one with that key: so it counts, though a record with the node's
// present address exists, too, such as that of a machine which had the address before.
func (n *Node) former(records []lease.Lease) []lease.Lease {
	keys := n.formerKeys()
	return slices.DeleteFunc(records, func(r lease.Lease) bool { return !slices.Contains(keys, r.Key) })
}

// hasAddressIn reports whether an interface of the host has an address in a subnet.
func (n *Node) hasAddressIn(key lease.Key) bool {
	return slices.ContainsFunc(n.host.facts.Links, func(l driver.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(a driver.LinkAddr) bool {
			ip := a.Prefix.Addr()
			return key.Of(cidr.FamilyOf(ip)).Contains(ip)
		})
	})
}

// checkGrant compares the grant with our record in the snapshot.
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
		n.recordGone()
	case rec.ModRevision < l.grant.ModRevision:
		n.noticeGarbage(snap)
		n.noticeOlderRecord(snap, rec)
	case !identity.SameOwner(&rec.Attrs, &l.grant.Attrs) && !l.wrote(&rec):
		l.ceded[rec.Key] = true
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
		n.checkOlderOwn()
	}
	if l.grant != nil {
		n.checkCopies(news)
		n.checkEclipse(news)
	}
	if l.grant != nil && l.grant.ModRevision == now.modified {
		l.agreed = now
	}
}

// agreement identifies a comparison of the grant with a snapshot. While its
// inputs stay the same, the thousands of records need no second comparison.
type agreement struct {
	snap     *lease.Snapshot
	key      lease.Key
	modified int64
	self     lease.Key // the subnet the host is programmed for: its record is ours as well
	uplink   uplink.Uplink
	config   int64 // revision of the config in force
}

// news returns the records to compare the grant with: only the new and changed
// ones if nothing but the snapshot has changed since the last agreement.
func (a agreement) news(last agreement) []*lease.Lease {
	var old []*lease.Lease
	if same := (agreement{last.snap, a.key, a.modified, a.self, a.uplink, a.config}); last.snap != nil && last == same {
		old = last.snap.Leases
	}
	c := lease.Compare(old, a.snap.Leases)
	return append(c.Added, c.Changed...)
}

func ownerOf(a lease.Attrs) string {
	if a.PublicIP.IsValid() {
		return a.PublicIP.String()
	}
	return a.PublicIPv6.String()
}

// noticeRestore detects a datastore that was wiped or restored from a backup. It
// has another history, in which our revisions mean nothing. Its revision may
// already be higher than ours.
func (n *Node) noticeRestore(before, now *lease.Snapshot) {
	switch {
	case now.Revision < before.Revision:
		n.startOver(now, fmt.Sprintf("the datastore went back from revision %d to %d", before.Revision, now.Revision))
	case now.History != before.History && before.History != 0:
		n.startOver(now,
			fmt.Sprintf("the datastore is another one, with id %x instead of %x", now.History, before.History))
	}
}

// doubtAfter is how long snapshots may lack our last write before the node asks
// the store about it: requests take up to some seconds.
const doubtAfter = 10 * time.Second

// doubtGrant follows snapshots that lack our last write although they follow the
// store. They may just be late. Or the store lost its data after that write and
// has another history by now: revision and identity may still equal those of the
// previous snapshot, so only the answer to a renewal shows it.
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

// noticeOlderRecord handles a snapshot that is newer than our last write but holds
// an older record. Either an undecodable value has replaced the record, which
// noticeGarbage handles, or this history does not contain our write.
func (n *Node) noticeOlderRecord(snap *lease.Snapshot, rec lease.Lease) {
	if !garbled(snap, rec.Key) {
		n.startOver(snap, fmt.Sprintf("at revision %d the datastore lacks our write of revision %d",
			snap.Revision, n.lease.grant.ModRevision))
	}
}

// startOver handles a datastore with another history. An earlier revision of our
// record counts, and the node updates it. Any other record under our key is not
// ours.
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
		n.drop() // the record is ours at any revision; the node finds it again
	case ok && n.earlier(rec):
		l.grant.Lease = rec
		l.renewAt = n.now // the answer holds the end of the lease
		if rec.Reserved() {
			l.grant.TTL, l.grant.Expires = 0, time.Time{}
			l.renewAt = time.Time{}
		}
	default:
		n.lost(fmt.Errorf("%s, and with it lease %s", why, l.grant.Key))
	}
}

// earlier reports whether a record is an earlier revision of our own. The creation
// revision alone does not prove that: an empty datastore counts from the start.
func (n *Node) earlier(rec lease.Lease) bool {
	g := n.lease.grant
	same := identity.SameOwner(&rec.Attrs, &g.Attrs) || sameData(rec.Attrs, g.Attrs)
	return rec.CreateRevision == g.CreateRevision && same
}

// checkCopies gives up backend data that an older record of another host has as
// well, or tells the operator how to. A host that had another's address for a while takes over its record with
// the VTEP, and from then on each of the two would refuse the other.
func (n *Node) checkCopies(news []*lease.Lease) {
	g := n.lease.grant
	spec, _ := all.Find(n.transition.Set().Type())
	if spec.SharesData {
		return
	}
	for _, r := range news {
		older := r.CreateRevision < g.CreateRevision
		if older && sameData(r.Attrs, g.Attrs) && !n.identity().Owns(r) && !n.isBeside(r) {
			n.event(Warning, "lease-copied", fmt.Sprintf("lease %s of %s is older and has our backend data; %s",
				r.Key, ownerOf(r.Attrs), cmp.Or(spec.OnCopy, "drawing other")))
			n.lease.copied = true
			return
		}
	}
}

// checkEclipse notices a newer record of this host with its key, such as one that the
// store wrote late for a process that was killed. Peers that run upstream give all packets of a key to the record that
// was written last (interop 6.5), so ours is written again.
func (n *Node) checkEclipse(news []*lease.Lease) {
	g := n.lease.grant
	if !n.transition.Set().HasKey() || n.lease.dispute.anew {
		return
	}
	for _, r := range news {
		newer := r.Key != g.Key && r.ModRevision > g.ModRevision
		if newer && sameData(r.Attrs, g.Attrs) && n.identity().Publishes(&r.Attrs) {
			n.lease.dispute.anew = true
			n.disputed(fmt.Errorf("record %s of this host is newer than our lease %s, so peers send to its subnet",
				r.Key, g.Key))
			return
		}
	}
}

func sameData(a, b lease.Attrs) bool {
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		return len(a.Data(f)) > 0 && bytes.Equal(a.Data(f), b.Data(f))
	})
}

// checkOverlaps gives our lease up if an older record covers part of our subnet
// (interop E7: overlapping leases). A reservation stays in the store for its
// operator to fix.
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

// checkOlderOwn gives up a lease that the node has just created if this host has an older one.
// Another daemon of the host created it at the same time, or a stale read hid it. Two daemons
// with a subnet each would change the host in turn forever.
func (n *Node) checkOlderOwn() {
	g := n.lease.grant
	older, ok := n.olderOwn()
	if !ok {
		return
	}
	n.event(Warning, "lease-doubled", fmt.Sprintf("this host has the older lease %s; giving %s up", older.Key, g.Key))
	n.request(Request{Verb: Release, Grant: *g})
	n.drop()
	n.lease.previous = older.Key
	n.retryWithin(releasePause, 5*time.Second) // until then it asks for nothing else
}

// olderOwn returns an older record of this host that the node can use in place of the one it
// has created. No pod has an address in a subnet for which the host is not programmed yet.
// A reservation, or a subnet that the store assigned, is not the node's to give up.
func (n *Node) olderOwn() (*lease.Lease, bool) {
	l := &n.lease
	if !l.created || l.self.Key == l.grant.Key || l.grant.Reserved() {
		return nil, false
	}
	own := n.identity()
	for _, r := range n.store.snap.Leases {
		if r.CreateRevision < l.grant.CreateRevision && own.Publishes(&r.Attrs) && n.unfit(*r) == nil {
			return r, true
		}
	}
	return nil, false
}

// olderOverlap returns another node's older record that overlaps our own. A record
// outside the network is no node's subnet and does not count.
func (n *Node) olderOverlap(records []*lease.Lease, own lease.Lease) (*lease.Lease, bool) {
	for _, r := range records {
		claims := r.Key.Overlaps(own.Key) && n.inNetwork(r.Key)
		if r.CreateRevision < own.CreateRevision && claims && !n.identity().Owns(r) && !n.isBeside(r) {
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
