package invariants

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

const (
	// changeBound is how long after a node's client has shown a change of the store
	// the node's host must follow it. A node waits up to 200 ms, looks,
	// changes the host and looks again.
	changeBound = 2 * time.Second
	// driftBound is how long a host may differ from the records after the last fault
	// on it: a pause of 36 s may follow a failure, and as much a lost hint.
	driftBound = lookBound
)

// follower tracks how a node's host follows the records that the node knows.
type follower struct {
	key    lease.Key       // the node's subnet
	config string          // the one in force at the node
	snap   *lease.Snapshot // the newest one that the node's client has shown
	asked  *lease.Snapshot // the one that the host must follow by due
	due    time.Duration   // 0: nothing is due
	// sound is true if the host was as demanded and no fault has touched it since.
	sound     bool
	touchedAt time.Duration // when a fault last touched the host, or the process was away; meaningful if not sound
	added     bool          // the scenario has added foreign objects to the host
}

// disturbed notes that a fault has changed the node's host, or is over.
func (n *Node) disturbed() {
	n.follows.sound, n.follows.touchedAt = false, n.all.elapsed()
}

// remakes notes that the node is about to change a device: it deletes that and makes it again.
func (f *follower) remakes(now time.Duration) {
	f.touchedAt = max(f.touchedAt, now+changeBound-driftBound)
}

// wasRefused notes that the kernel refused an op: a pause follows. A refusal
// without a fault does not excuse the node forever.
func (n *Node) wasRefused(byFault bool) {
	n.follows.sound = false
	if byFault {
		n.follows.touchedAt = n.all.elapsed()
		n.touched(nil)
	}
}

// checkChanges is called after every event. It checks that hosts hold in time what
// the records that their nodes know demand.
func (i *Invariants) checkChanges() error {
	for _, name := range i.order {
		n := i.nodes[name]
		if err := n.checkChange(i.elapsed()); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) checkChange(now time.Duration) error {
	f := &n.follows
	if n.stands() || !n.holds || n.client.View().Snapshot == nil {
		f.snap, f.due = nil, 0
		f.touchedAt = now
		return nil
	}
	if n.between() {
		f.snap, f.due = nil, 0
		f.sound = false
		f.touchedAt = now
		return nil
	}
	if snap := n.client.View().Snapshot; snap != f.snap || n.key != f.key || n.config != f.config {
		if f.snap != nil && (snap.Config.Revision != f.snap.Config.Revision || n.config != f.config) {
			f.remakes(now)
		}
		// A host with several networks keeps no device by a former config that another one wants.
		anew := n.config != f.config && n.all.about.Apart != nil
		f.snap, f.key = snap, n.key
		f.config = n.config
		if f.due == 0 || anew {
			f.asked, f.due = snap, now+changeBound
		}
	}
	switch {
	case f.due > 0 && now >= f.due:
		return n.judgeChange(now)
	case !f.sound && f.due == 0 && now-f.touchedAt > driftBound:
		return n.judgeDrift(now)
	}
	return nil
}

// judgeChange checks that the host has followed a change in time. It does not judge
// a host that was not in order before the change: see judgeDrift.
func (n *Node) judgeChange(now time.Duration) error {
	f := &n.follows
	asked := f.asked
	f.due = 0
	if asked != f.snap { // later changes are due later
		f.asked, f.due = f.snap, now+changeBound
	}
	short, known := n.missing(asked)
	was := f.sound
	lacks := known && len(short) > 0
	// A host may lack nothing of a former snapshot while its kernel refuses what the latest demands.
	f.sound = known && !lacks && (was || asked == f.snap)
	if !lacks {
		return nil
	}
	if was {
		return fmt.Errorf("%s has known the records of revision %d for %s, and its host lacks %d objects, first: %s",
			n.name, asked.Revision, changeBound, len(short), short[0])
	}
	if now-f.touchedAt > driftBound {
		return n.drifted(now, short)
	}
	return nil
}

// judgeDrift checks that the host is in order some time after the last fault.
func (n *Node) judgeDrift(now time.Duration) error {
	f := &n.follows
	short, known := n.missing(f.snap)
	f.sound = known && len(short) == 0
	if f.sound || !known {
		f.touchedAt = now
		return nil
	}
	return n.drifted(now, short)
}

// drifted returns an error that names what a host lacks long after the last fault.
func (n *Node) drifted(now time.Duration, short []string) error {
	return fmt.Errorf("%s had %s without a fault on its host, which still lacks %d objects, first: %s",
		n.name, now-n.follows.touchedAt, len(short), short[0])
}

// reading returns the part of a host's state within an extent.
type reading func(dataplane.Extent) (*dataplane.State, error)

// missing names the objects that the host lacks to serve those records of a
// snapshot that have not changed since. The answer is unknown while a fault on the
// host is in force, or while the node is about to move.
func (n *Node) missing(asked *lease.Snapshot) (short []string, known bool) {
	if len(n.all.hostFaults(n.name)) > 0 {
		return nil, false
	}
	return n.missingIn(asked, n.Daemon.Observe)
}

// missingIn is missing for a reading of the host, whatever faults are in force.
func (n *Node) missingIn(asked *lease.Snapshot, read reading) (short []string, known bool) {
	i := n.all
	if i.situation.Host == nil || n.Twinned || n.follows.added {
		return nil, false
	}
	if n.deadlines.slowed {
		return nil, false // a plan is not interrupted, so it continues after the heal of the fault
	}
	host, err := i.situation.Host(n.name)
	text, same := n.knownConfig(asked)
	if err != nil || !same {
		return nil, false
	}
	host.Config = text
	host.Masquerade, host.Forward = false, false
	if own, _ := n.steady(asked); !i.fitsConfig(text, own.Key) {
		return nil, false // it is about to take another subnet
	}
	if n.usesLostAddress(host.Uplink) {
		return nil, false
	}
	for _, host.Uplink = range n.uplinks(host.Uplink) {
		less, judged := n.lacks(host, asked, read)
		if judged && (!known || len(less) < len(short)) {
			short, known = less, true
		}
	}
	return short, known
}

// uplinks returns the uplink of a host with each address that a process may have
// chosen at its start: a host with a second address has several.
func (n *Node) uplinks(up oracle.Uplink) []oracle.Uplink {
	all := []oracle.Uplink{up}
	for _, l := range n.Facts().Links {
		for _, a := range l.Addrs {
			ip := a.Prefix.Addr()
			f := cidr.FamilyOf(ip)
			if l.Name != up.Link || ip == up.Addr[f] || !up.Addr[f].IsValid() || !ip.IsGlobalUnicast() {
				continue
			}
			other := up
			if other.Public[f] == other.Addr[f] { // no NAT
				other.Public[f] = ip
			}
			other.Addr[f] = ip
			all = append(all, other)
		}
	}
	return all
}

// usesLostAddress reports whether a node behind a router uses an address that its host has lost: it keeps one for
// some time. The record of a node that is not behind a router shows that.
func (n *Node) usesLostAddress(up oracle.Uplink) bool {
	used, has := n.Daemon.Status().Uplink, n.addresses()
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		a := used.Addr(f)
		return up.Public[f] != up.Addr[f] && a.IsValid() && !slices.Contains(has, a)
	})
}

// lacks names the objects that a host lacks, with the given address of its uplink
// in use.
func (n *Node) lacks(host oracle.Host, asked *lease.Snapshot, read reading) (short []string, known bool) {
	own, others := n.steady(asked)
	for _, f := range cidr.Families {
		said := own.Attrs.IP(f)
		if own.Key.Of(f).IsValid() && said != host.Uplink.Public[f] {
			return nil, false // it is about to publish another address
		}
		if now := n.published.address[f]; now.IsValid() && now != said {
			return nil, false // it has published another address, which the snapshot does not show yet
		}
	}
	host.NewKeys = n.newKeys(own)
	demand, err := oracle.Demanded(host, own, others)
	if err != nil || !own.Key.IsValid() || copied(&own, n.follows.snap.Leases) {
		return nil, false
	}
	have, err := read(demand.Extent())
	if err != nil {
		return nil, false
	}
	short = demand.Missing(have)
	if asked == n.follows.snap || len(short) == 0 {
		return short, true
	}
	// A later record may have taken the place of one that did not change, for example
	// with the same VTEP, and so may an earlier one that has changed since.
	for _, whole := range []*lease.Snapshot{asked, n.follows.snap} {
		demand, err := oracle.Demanded(host, own, n.others(whole))
		if err != nil {
			return nil, false
		}
		still := demand.Missing(have)
		short = slices.DeleteFunc(short, func(o string) bool { return !slices.Contains(still, o) })
	}
	return short, true
}

// copied reports whether an older record has the device of a node's own record: the
// node draws another one, which it is about to publish.
func copied(own *lease.Lease, all []*lease.Lease) bool {
	return slices.ContainsFunc(all, func(o *lease.Lease) bool {
		return o.Key != own.Key && o.CreateRevision < own.CreateRevision && (sameVTEP(o, own) || sameWireGuard(o, own))
	})
}

// others returns the records of a snapshot except the node's own.
func (n *Node) others(snap *lease.Snapshot) []lease.Lease {
	var all []lease.Lease
	for _, l := range snap.Leases {
		if l.Key != n.key {
			all = append(all, *l)
		}
	}
	return all
}

// knownConfig returns the network config in force at the node, and whether it was in
// force as of a snapshot, too. A config that the node cannot use leaves the former one
// in force.
func (n *Node) knownConfig(asked *lease.Snapshot) (text string, same bool) {
	return n.config, n.config != "" && bytes.Equal(asked.Config.Data, n.follows.snap.Config.Data)
}

// fitsConfig reports whether a node stays with a subnet under a network config.
// The subnets of Kubernetes nodes are assigned.
func (i *Invariants) fitsConfig(text string, key lease.Key) bool {
	if i.about.Config != "" {
		return true
	}
	network, err := config.Parse([]byte(text))
	return err == nil && alloc.Compatible(network, key) == nil
}

// steady returns the node's own record and the records of others that a snapshot has
// in common with the newest one. A record with an address of this host, which a former
// process chose, does not count as another's: the kernel refuses a route through it.
func (n *Node) steady(asked *lease.Snapshot) (own lease.Lease, others []lease.Lease) {
	addresses := n.addresses()
	for _, l := range asked.Leases {
		unchanged := func(o *lease.Lease) bool { return o.Key == l.Key && o.ModRevision == l.ModRevision }
		switch {
		case asked != n.follows.snap && !slices.ContainsFunc(n.follows.snap.Leases, unchanged):
			continue
		case l.Key == n.key:
			own = *l
		case !slices.Contains(addresses, owner(l.Attrs)):
			others = append(others, *l)
		}
	}
	return own, others
}
