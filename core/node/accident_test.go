package node

import (
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// wipe takes all records out of the store.
func (w *world) wipe() {
	w.snap.Leases = nil
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(time.Second)
}

// wipedWorld returns a node with two peers, which exits when it loses its lease, right after
// the datastore has lost all records, and the node's subnet.
func wipedWorld(t *testing.T) (w *world, own lease.Key) {
	w = newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	own = w.own().Key
	w.wipe()
	return w, own
}

// A datastore that is wiped, or loses most records, has had an accident. The
// node's lease was not lost to another node, so it does not exit.
func TestNoExitAfterAnAccident(t *testing.T) {
	w, own := wipedWorld(t)
	if w.exit != nil || w.own().Key != own || w.host.Routes.Len() != 2 {
		t.Errorf("exit %v, %d routes, want none and two\n%s", w.exit, w.host.Routes.Len(), w.log())
	}
	w.pass(2 * keepFor)
	w.remove(own)
	w.tell()
	if w.exit == nil {
		t.Errorf("the lease is lost long after the accident, and the node does not exit\n%s", w.log())
	}
}

// The node objects of a cluster are deleted and registered anew: all records are gone, and this node gets
// another subnet. That is an accident as any other.
func TestAccidentWithAnotherSubnet(t *testing.T) {
	w := newAssignedWorld(t, vxlanConfig, lease.Assigned{Key: mustKey("10.5.7.0-24"), Node: "n1"})
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.assigned.Key = mustKey("10.5.9.0-24")
	w.wipe()
	w.pass(time.Second)
	if got := w.host.Routes.Len(); got != 2 || w.n.lease.self.Key != w.assigned.Key {
		t.Errorf("%d routes with subnet %s, want those of both peers with %s\n%s", got, w.n.lease.self.Key, w.assigned.Key,
			w.log())
	}
}

// TestExitWhenTakenAfterAnAccident gives the node's subnet to another host soon
// after an accident. The node cannot write its record again then.
func TestExitWhenTakenAfterAnAccident(t *testing.T) {
	w, own := wipedWorld(t)
	w.pass(30 * time.Second)
	if w.exit != nil {
		t.Fatalf("exit %v after an accident\n%s", w.exit, w.log())
	}
	w.put(vxlanPeer(own.String(), 77))
	w.tell()
	if w.exit == nil {
		t.Errorf("another host has taken the lease, and the node does not exit\n%s", w.log())
	}
}

// Restarts within the period do not forget the kept peers, nor the period's end.
func TestRestartsKeepLostPeers(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.wipe()
	for range 2 {
		w.pass(30 * time.Second)
		w.start()
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		if got := w.host.Routes.Len(); got != 2 {
			t.Fatalf("%d routes after a restart, want those of both peers\n%s", got, w.log())
		}
	}
	w.pass(keepFor)
	if got := w.host.Routes.Len(); got != 0 {
		t.Errorf("%d routes after the period\n%s", got, w.log())
	}
}

// Kept peers that write their records again are peers like any other: the log says
// once that all are back, and nothing is given up later.
func TestLostPeersComeBack(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.wipe()
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	if w.count("peers-back") != 0 {
		t.Errorf("one of two peers is back, and the log says that all are\n%s", w.log())
	}
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(2 * keepFor)
	kept := w.logged("peers-kept")
	if len(kept) != 1 || !strings.Contains(kept[0], "serving these for 5m0s") {
		t.Errorf("logged %q, want how long peers are kept", kept)
	}
	if w.count("peers-back") != 1 || w.count("peers-given-up") != 0 {
		t.Errorf("want one line that all are back\n%s", w.log())
	}
	if got := w.host.Routes.Len(); got != 2 {
		t.Errorf("%d routes, want two", got)
	}
}

// TestLostPeersBackBeforeAStart lets lost peers write their records again while the daemon is
// down, until its lease has ended. Then they are peers like any other: a second, older record of
// each would contradict the first.
func TestLostPeersBackBeforeAStart(t *testing.T) {
	short := func(o *Options) { o.LeaseTTL = 30 * time.Second }
	w := newWorld(t, vxlanConfig, short)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.wipe()
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.now = w.now.Add(time.Minute)
	w.start(short)
	w.tell()
	w.pass(time.Second)
	if lost := w.n.store.lost.peers; len(lost) != 0 || w.count("peers-back") != 1 {
		t.Errorf("still lost: %v\n%s", lost, w.log())
	}
	w.wantReady()
}

// A datastore with another identity cannot tell which peers have left, even if it
// holds our record. One whose former identity is unknown can.
func TestPeersOfAnotherHistory(t *testing.T) {
	for _, c := range []struct {
		before, after uint64
		routes        int
	}{{7, 7, 0}, {7, 8, 2}, {0, 8, 0}} {
		w := newWorld(t, vxlanConfig)
		w.snap.History = c.before
		w.put(vxlanPeer("10.5.3.0-24", 4))
		w.put(vxlanPeer("10.5.4.0-24", 5))
		w.tell()
		w.pass(time.Second)
		w.remove(mustKey("10.5.3.0-24"))
		w.remove(mustKey("10.5.4.0-24"))
		w.snap.History = c.after
		w.tell()
		w.pass(time.Minute)
		if got := w.host.Routes.Len(); got != c.routes {
			t.Errorf("identity %d, then %d: %d routes, want %d\n%s", c.before, c.after, got, c.routes, w.log())
		}
	}
}

// A record that the datastore holds wins over one that it has lost: here another
// host has the MAC of a kept peer.
func TestRecordsWinOverLostOnes(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.wipe()
	other := vxlanPeer("10.5.9.0-24", 14)
	other.Attrs.BackendData = vxlanPeer("10.5.3.0-24", 4).Attrs.BackendData
	w.put(other)
	w.tell()
	w.pass(time.Minute)
	dump := w.host.Dump()
	if !strings.Contains(dump, "route 10.5.9.0/24") || strings.Contains(dump, "route 10.5.3.0/24") {
		t.Errorf("want a route to the record's subnet, and none to the lost one:\n%s", dump)
	}
}

// A node that needs another subnet takes none that a lost peer will ask for again.
func TestLostPeersKeepTheirSubnets(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/22","Backend":{"Type":"vxlan"}}`) // three subnets
	w.tell()
	w.pass(time.Second)
	own := w.own().Key
	for i, k := range []string{"10.5.1.0-24", "10.5.2.0-24", "10.5.3.0-24"} {
		if mustKey(k) != own {
			w.put(vxlanPeer(k, byte(10+i)))
		}
	}
	w.tell()
	w.pass(time.Minute)
	w.held = true
	w.wipe()
	w.put(vxlanPeer(own.String(), 77))
	requests := len(w.requests)
	w.held = false
	w.run(Input{View: w.view(), Requested: w.serve()})
	w.pass(keepFor - 2*time.Second)
	if got := w.requests[requests:]; len(got) != 0 || w.count("no-subnet") != 1 {
		t.Errorf("requests %v, want none while lost peers claim all other subnets\n%s", got, w.log())
	}
	w.pass(2 * time.Minute)
	w.wantReady()
}

// Our own record and a few others may go at once without an accident.
func TestFewRecordsGone(t *testing.T) {
	w := readyWorld(t)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.put(vxlanPeer("10.5.78.0-24", 78))
	w.tell()
	w.pass(time.Minute)
	own := w.own().Key
	w.remove(own)
	w.remove(mustKey("10.5.77.0-24"))
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if w.count("peers-kept") != 0 || w.host.Routes.Len() != 3 {
		t.Errorf("%d routes, want those to the three peers with a record\n%s", w.host.Routes.Len(), w.log())
	}
}

// A datastore was wiped, and the node sees that only after the peers have written their
// records again. It has lost its own, and no other node has taken that.
func TestNoExitAfterAnAccidentSeenLate(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
	peers := []lease.Lease{vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)}
	for _, p := range peers {
		w.put(p)
	}
	w.tell()
	w.pass(time.Minute)
	own := w.own().Key
	w.snap.Leases = nil
	for _, p := range peers {
		w.put(p)
	}
	w.tell()
	w.pass(time.Minute)
	if w.exit != nil || w.own().Key != own {
		t.Errorf("exit %v, record %v, want the former one written again\n%s", w.exit, w.own(), w.log())
	}
}

// A record in the datastore is older than each lost one.
func TestLostPeersYield(t *testing.T) {
	first, second := vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)
	created := first.CreateRevision
	for _, l := range yielding([]*lease.Lease{&first, &second}) {
		if l.CreateRevision != lease.Youngest {
			t.Errorf("created at %d", l.CreateRevision)
		}
	}
	if first.CreateRevision != created {
		t.Error("the record of the snapshot has changed")
	}
}
