package node

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
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
		w.n.Step(w.now, Input{Looked: &Looked{Facts: w.facts, Have: have, SubnetFile: w.subnetFile()}})
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
	plan := looked(dataplane.State{}, 7).Plan
	if len(plan) != 3 {
		t.Fatalf("planned %v, want three objects for the new peer", plan)
	}

	// What has changed since is all there is to read, once they agreed.
	w.apply(plan[:2])
	w.n.Step(w.now, Input{Applied: &Applied{Errs: []error{nil, nil, driver.ErrBusy}}})
	if r := w.n.Ready(); r.Look == nil || r.Look.Known != 7 {
		t.Fatalf("after a plan: %+v, want a look that knows generation 7", r)
	}
	part := dataplane.NewState(0)
	part.Links, part.Addrs, part.Sysctls = w.host.Links, w.host.Addrs, w.host.Sysctls
	part.Changed = dataplane.NewKeys()
	for _, op := range plan[:2] {
		switch o := op.Object.(type) {
		case dataplane.Neigh:
			part.AddNeigh(o)
			part.Changed.Neighs[o.NeighKey] = struct{}{}
		case dataplane.FDBEntry:
			part.AddFDB(o)
			part.Changed.FDB[o.FDBKey] = struct{}{}
		}
	}
	if r := looked(part, 8); len(r.Plan) != 1 || r.Plan[0] != plan[2] {
		t.Errorf("planned %v, want the route that failed", r.Plan)
	}
}

// TestKnownHostIsReadAnewForALink: whatever a link takes along has to be seen.
func TestKnownHostIsReadAnewForALink(t *testing.T) {
	w := readyWorld(t)
	whole := w.host
	whole.Generation = 7
	for _, c := range []struct {
		have  dataplane.State
		known uint64 // by the next look
	}{
		{whole, 7},
		{dataplane.State{Generation: 8, Changed: dataplane.NewKeys()}, 0},
	} {
		w.now = w.now.Add(time.Minute)
		w.n.Step(w.now, Input{})
		w.n.Ready()
		w.n.Step(w.now, Input{Looked: &Looked{Facts: w.facts, Have: c.have}})
		if r := w.n.Ready(); r.Plan != nil {
			t.Errorf("generation %d: planned %v", c.have.Generation, r.Plan)
		}
		if w.n.host.agreed == nil != (c.known == 0) {
			t.Errorf("generation %d: agreement %v, want one of generation %d", c.have.Generation, w.n.host.agreed, c.known)
		}
	}
}
