package node

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestKnownHostIsNotReadAgain follows a driver that numbers what it reads.
func TestKnownHostIsNotReadAgain(t *testing.T) {
	w := readyWorld(t)
	look := func(in Input) dataplane.Extent {
		t.Helper()
		w.now = w.now.Add(time.Minute)
		w.n.Step(w.now, in)
		r := w.n.Ready()
		if r.Look == nil {
			t.Fatal("no look after a minute")
		}
		return *r.Look
	}
	looked := func(have dataplane.State, generation uint64) Ready {
		have.Generation = generation
		w.n.Step(w.now, Input{Looked: &Looked{Facts: w.facts, Have: have}})
		return w.n.Ready()
	}
	if known := look(Input{}).Known; known != 0 {
		t.Errorf("knows generation %d without having read one", known)
	}
	looked(w.host, 7)
	if known := look(Input{}).Known; known != 7 {
		t.Errorf("knows generation %d, want 7", known)
	}
	if r := looked(dataplane.State{}, 7); r.Plan != nil {
		t.Errorf("%d changes for a host that stayed as it was", len(r.Plan))
	}
	w.wantReady()

	look(Input{})
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.n.Step(w.now, Input{View: w.view()})
	w.n.Ready()
	if r := looked(dataplane.State{}, 7); r.Plan != nil || r.Look == nil || r.Look.Known != 0 {
		t.Errorf("what a new peer needs has to be read: %+v", r)
	}
	if r := looked(w.host, 7); len(r.Plan) != 3 {
		t.Errorf("planned %v, want three objects for the new peer", r.Plan)
	}
}
