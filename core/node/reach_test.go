package node

import (
	"fmt"
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
