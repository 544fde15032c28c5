package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// undo deletes the routes of a host every half second for so long, as another program does that wants them otherwise.
func undo(w *world, lasts time.Duration) (times int) {
	for end := w.now.Add(lasts); w.now.Before(end); times++ {
		for k := range w.host.Routes.All {
			w.host.Routes.Delete(k)
		}
		w.run(hint(HostLane))
		w.pass(500 * time.Millisecond)
	}
	return times
}

// TestRecurringRepairs undoes the same repair for five minutes: the log has the first ones, and then one line a minute,
// while each is made and counted.
func TestRecurringRepairs(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	applied, programmed := w.count("applied"), w.count("programmed")
	times := undo(w, 5*time.Minute)
	w.wantReady()
	if n := w.count("applied") - applied; n != recurringEach {
		t.Errorf("%d repairs are logged, want %d", n, recurringEach)
	}
	if n := w.count("programmed") - programmed; n > recurringEach+6 {
		t.Errorf("%d ends of repairs are logged", n)
	}
	if n := w.count("repairs-undone"); n < 5 || n > 6 {
		t.Errorf("%d warnings in five minutes", n)
	}
	last := w.events[len(w.events)-1].Text
	if !strings.Contains(w.log(), "for the 6th time; another program") {
		t.Errorf("the sixth repair has no warning; the last event: %s", last)
	}
	if n := w.status().Lanes[HostLane].Work.Repairs["route"]["add"]; n < uint64(times) {
		t.Errorf("%d repairs are counted of %d", n, times)
	}

	delete(w.host.Links, "flannel.1")
	w.run(hint(HostLane))
	w.pass(time.Second)
	if n := w.count("applied") - applied; n <= recurringEach {
		t.Error("another repair is not logged")
	}
	applied = w.count("applied")
	w.pass(2 * recurringEvery)
	undo(w, 500*time.Millisecond)
	if n := w.count("applied") - applied; n != 1 {
		t.Errorf("after a quiet time %d repairs are logged, want 1\n%s", n, w.log())
	}
}

// worldOfPeers is a world whose node is ready and has that many peers, with the subnets 10.5.100.0/24 and following.
func worldOfPeers(t *testing.T, peers int) *world {
	t.Helper()
	w := newWorld(t, vxlanConfig)
	for i := range peers {
		w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 100+i), byte(100+i)))
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

// loseRoute deletes the route to a peer with the subnet 10.5.N.0/24.
func (w *world) loseRoute(n int) {
	dst := netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", n))
	w.host.Routes.Delete(dataplane.RouteKey{Dst: dst})
}

// TestDifferentRepairsAreNotRecurring deletes other routes each time, two at once: plans of one
// length have one text, and are other repairs.
func TestDifferentRepairsAreNotRecurring(t *testing.T) {
	w := worldOfPeers(t, 20)
	applied := w.count("applied")
	for i := range 10 {
		for _, third := range []int{100 + 2*i, 101 + 2*i} {
			w.loseRoute(third)
		}
		w.run(hint(HostLane))
		w.pass(500 * time.Millisecond)
	}
	if n := w.count("applied") - applied; n != 10 || w.count("repairs-undone") != 0 {
		t.Errorf("%d of 10 repairs are logged, and %d warnings\n%s", n, w.count("repairs-undone"), w.log())
	}
}

// TestRecurringRepairsInTurn undoes two repairs in turn: neither fills the log.
func TestRecurringRepairsInTurn(t *testing.T) {
	w := worldOfPeers(t, 2)
	applied := w.count("applied")
	for i := range 200 {
		w.loseRoute(100 + i%2)
		w.run(hint(HostLane))
		w.pass(500 * time.Millisecond)
	}
	if n := w.count("applied") - applied; n != 2*recurringEach {
		t.Errorf("%d repairs are logged, want %d", n, 2*recurringEach)
	}
	if n := w.count("repairs-undone"); n < 4 || n > 6 {
		t.Errorf("%d warnings", n)
	}
}
