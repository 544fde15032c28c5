package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPlansWhilePeersJoin lets a peer join during every look of a node that must
// know the routes to its peers. Each look then lacks a peer, and the node programs
// the others nevertheless.
func TestPlansWhilePeersJoin(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`)
	w.put(vxlanPeer("10.5.200.0-24", 4))
	w.tell()
	w.pass(5 * time.Second)
	w.wantReady()
	w.run(hint(HostLane))
	for n := byte(10); n < 110; n++ {
		w.now = w.now.Add(20 * time.Millisecond)
		w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", n), n))
		w.n.Step(w.now, Input{}) // begins a look
		looked, _ := w.perform(w.n.Ready())
		w.n.Step(w.now, Input{View: w.view()})
		w.n.Step(w.now, looked)
	}
	if got := w.host.Routes.Len(); got < 50 {
		t.Errorf("%d routes after 2 s, want at least half of those to 101 peers\n%s", got, w.log())
	}
	w.pass(5 * time.Second)
	w.wantReady()
	if got := w.host.Routes.Len(); got != 101 {
		t.Errorf("%d routes at the end, want 101", got)
	}
}

// TestNotReadyBeforeTheComparison has a peer join during a look that shows the device
// without its address. The node asks again before it compares, and is not ready until then.
func TestNotReadyBeforeTheComparison(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`)
	w.put(vxlanPeer("10.5.200.0-24", 4))
	w.tell()
	w.pass(5 * time.Second)
	w.wantReady()
	clear(w.host.Addrs)
	w.n.Step(w.now, hint(HostLane))
	w.now = w.now.Add(time.Second)
	w.n.Step(w.now, Input{}) // begins a look
	looked, _ := w.perform(w.n.Ready())
	w.put(vxlanPeer("10.5.201.0-24", 5))
	w.n.Step(w.now, Input{View: w.view()})
	w.n.Step(w.now, looked)
	if w.status().Ready {
		t.Error("the node calls itself ready, though the host has lost its address")
	}
	w.pass(5 * time.Second)
	w.wantReady()
}

// Each look asks for the routes to the peers that there are, and a look that asked
// for more than them will do.
func TestLookAsksForThePresentPeers(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	for n := range byte(3) {
		peer := vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 200+n), 4+n)
		peer.Attrs.BackendType, peer.Attrs.BackendData = "host-gw", nil
		w.put(peer)
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if got := fmt.Sprint(w.n.host.asked); got != "[192.168.64.3 192.168.64.4 192.168.64.5 192.168.64.6]" {
		t.Errorf("the look asked for %s, want all nodes", got)
	}
	w.remove(mustKey("10.5.201.0-24"))
	w.n.Step(w.now, Input{View: w.view()})
	if !w.n.reachKnown() {
		t.Errorf("the look asked for %s, and not for enough of %s", w.n.host.asked, w.n.reach())
	}
	w.n.host.asked = w.n.host.asked[:3]
	if w.n.reachKnown() {
		t.Errorf("the look asked for %s alone, and for enough of %s", w.n.host.asked, w.n.reach())
	}
	w.run(Input{})
	w.pass(time.Minute)
	if got := fmt.Sprint(w.n.host.asked); got != "[192.168.64.3 192.168.64.4 192.168.64.6]" {
		t.Errorf("the look asks for %s, want the nodes that are left", got)
	}
}

// TestReachFollowsChanges changes peers at random, several of which may have one address. The
// addresses that the node asks for are those that it would collect from all records, and it does
// not collect them all each time.
func TestReachFollowsChanges(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.tell()
	rng, followed := rand.New(rand.NewPCG(1, 2)), 0
	for i := range 400 {
		for range rng.IntN(4) {
			peer := vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 200+rng.IntN(30)), byte(4+rng.IntN(200)))
			peer.Attrs.BackendType, peer.Attrs.BackendData = "host-gw", nil
			if rng.IntN(3) == 0 {
				w.remove(peer.Key)
			} else {
				w.put(peer)
			}
		}
		w.n.store.snap = w.view().Snapshot
		last, handedOut := w.n.host.reach, slices.Clone(w.n.host.reach.addrs)
		if try := last; try.follow(w.n.store.snap, w.n.network.config) {
			followed++
		}
		got := w.n.reach()
		if !slices.Equal(last.addrs, handedOut) {
			t.Fatalf("step %d: the list of the last look has changed", i)
		}
		kept := w.n.host.reach
		w.n.host.reach = reach{}
		if want := w.n.reach(); !slices.Equal(got, want) {
			t.Fatalf("step %d: reach %s, want %s", i, got, want)
		}
		w.n.host.reach = kept
	}
	if followed < 100 {
		t.Errorf("followed %d of 400 changes, want at least 100", followed)
	}
}
