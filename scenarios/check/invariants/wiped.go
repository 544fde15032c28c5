package invariants

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

const (
	// graceBound is how long a node serves peers whose records the store has lost by
	// accident: a little less than five minutes.
	graceBound = 5*time.Minute - 10*time.Second
	// departBound is when a node must have removed those that did not come back.
	departBound = 5*time.Minute + driftBound
)

// accident is the loss of all records of a store at once, including the node's own.
// It does not mean that nodes have left.
type accident struct {
	known *lease.Snapshot // the last one that the process got
	at    time.Duration   // of the last accident
	anew  time.Duration   // when the node may have begun its period of grace again
	peers []lostPeer      // whose records were lost and have not come back
}

// lostPeer is a peer whose record the store lost by accident.
type lostPeer struct {
	lease.Lease
	at time.Duration // of the last accident in the period of grace that began with the loss
}

// noteAccident compares the snapshots that the process gets in a row, even one that it gets
// after it has lost the store, such as a process that was paused: a record that this one lacks
// was not lost together with those that the next one lacks.
func (n *Node) noteAccident(in node.Input) {
	view := n.client.View()
	if in.View == nil || view.Snapshot == nil || view.Snapshot == n.lost.known {
		return
	}
	before, now := n.lost.known, view.Snapshot
	n.lost.known = now
	isBack := func(l lostPeer) bool {
		return slices.ContainsFunc(now.Leases, func(o *lease.Lease) bool { return o.Key.Overlaps(l.Key) })
	}
	n.lost.peers = slices.DeleteFunc(n.lost.peers, isBack)
	if before != nil && n.mayBeginAnew(before, now) {
		n.lost.anew = n.all.elapsed()
	}
	own := func(l *lease.Lease) bool { return l.Key == n.last }
	if before == nil || !n.holds || n.Twinned || len(now.Leases) > 0 || !slices.ContainsFunc(before.Leases, own) {
		return
	}
	// The loss of the node's own record alone says nothing about peers that were lost before.
	// Nor does a record that a former process of the node left under another address.
	others := func(l *lease.Lease) bool {
		return !own(l) && !slices.Contains(append(n.addresses(), n.formerly...), owner(l.Attrs))
	}
	if !slices.ContainsFunc(before.Leases, others) {
		return
	}
	n.lost.at = n.all.elapsed()
	for k, l := range n.lost.peers { // a peer that the node has given up gets no further period
		if n.lost.at-l.at < graceBound {
			n.lost.peers[k].at = n.lost.at
		}
	}
	for _, l := range before.Leases {
		if others(l) && n.all.mustServe(n, l, before) && !sharesTunnel(l, before) {
			lost := lostPeer{*l, n.lost.at} // a record that the store holds wins
			lost.CreateRevision = math.MaxInt64
			lost.ModRevision -= math.MaxInt64
			n.lost.peers = append(n.lost.peers, lost)
		}
	}
}

// sharesTunnel reports whether another record has a record's VTEP or key. Of lost records nothing says which is older.
func sharesTunnel(l *lease.Lease, snap *lease.Snapshot) bool {
	return slices.ContainsFunc(snap.Leases, func(o *lease.Lease) bool {
		return o != l && (sameVTEP(o, l) || sameWireGuard(o, l))
	})
}

// mayBeginAnew reports whether the node may take the change for another accident,
// and begin its period of grace again: the store was restored, or it has neither the
// node's own record nor most of the others. A node that was cut off while these ran
// out cannot distinguish that from a loss, and keeping the peers longer is the safe
// choice.
func (n *Node) mayBeginAnew(before, now *lease.Snapshot) bool {
	if now.Revision < before.Revision || now.History != before.History && before.History != 0 {
		return true
	}
	ownGone := false
	others, lost := 0, 0
	for _, l := range before.Leases {
		same := func(o *lease.Lease) bool { return o.Key == l.Key }
		at := slices.IndexFunc(now.Leases, same)
		wasGone := at < 0 || now.Leases[at].CreateRevision != l.CreateRevision
		if l.Key == n.last {
			ownGone = wasGone
			continue
		}
		others++
		if wasGone {
			lost++
		}
	}
	return ownGone && 2*lost > others
}

// checkKept checks that a node which is about to delete an object of a subnet does
// not have to keep the peer.
func (n *Node) checkKept(o dataplane.Object, subnet netip.Prefix, now *lease.Snapshot) {
	for _, l := range n.lost.peers {
		after := n.all.elapsed() - l.at
		if after >= graceBound || n.isOutdated(o, &l.Lease) {
			continue
		}
		if (l.Key.V4 == subnet || l.Key.V6 == subnet) && n.all.mustServe(n, &l.Lease, now) {
			n.all.broken("lost-peers-stay", "%s is about to remove %s at %s, %s after the store lost all records",
				n.name, owner(l.Attrs), subnet, after)
		}
	}
}

// checkDeparted is called after every event: some time after the last period of
// grace, a host holds no route to a peer that did not come back.
func (i *Invariants) checkDeparted() error {
	for _, name := range i.order {
		n := i.nodes[name]
		if len(n.lost.peers) == 0 {
			continue
		}
		if n.Daemon.Halted() {
			n.lost.anew = i.elapsed() // while a machine sleeps its clock may stand, and the period with it
		}
		if n.stands() || n.Twinned || n.follows.added || !n.client.View().Synced || len(i.hostFaults(name)) > 0 {
			n.lost.at = max(n.lost.at, i.elapsed()-graceBound) // something may have kept the node from removing them
			continue
		}
		since := i.elapsed() - max(n.lost.at, n.lost.anew)
		if since <= departBound {
			continue
		}
		gone := n.lost.peers
		n.lost.peers = nil
		if left := n.routesTo(gone); left != "" {
			return fmt.Errorf("%s still has %q, though its peer did not come back within %s of the last loss of records",
				name, left, since)
		}
	}
	return nil
}

// routesTo returns a route of the daemon to one of some peers, if there is one.
func (n *Node) routesTo(peers []lostPeer) string {
	seen, err := n.Daemon.Driver().Look(context.Background(), dataplane.Extent{Networks: n.all.networks})
	if err != nil {
		return ""
	}
	for _, r := range seen.State.Routes.All {
		leads := func(l lostPeer) bool { return r.Dst == l.Key.V4 || r.Dst == l.Key.V6 }
		if r.Protocol == dataplane.Protocol && r.Kind != dataplane.Blackhole && slices.ContainsFunc(peers, leads) {
			return r.String()
		}
	}
	return ""
}
