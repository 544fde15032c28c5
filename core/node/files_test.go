package node

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"
)

func savedLeases(t *testing.T, text string) int {
	t.Helper()
	var s saved
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return len(s.Snapshot.Leases)
}

// What a stop finds unsaved is written at once, whenever the file would have
// been due, and nothing else is begun.
func TestStopSaves(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.tell() // saved at once
	w.put(vxlanPeer("10.5.78.0-24", 78))
	w.tell() // too early to save
	before := savedLeases(t, w.files[StateFile])
	if want := len(w.snap.Leases) - 1; before != want {
		t.Fatalf("%d leases saved, want %d", before, want)
	}
	w.put(vxlanPeer("10.5.79.0-24", 79)) // which only the last view tells
	last := hint(HostLane)
	last.View, last.Stop = w.view(), true
	w.n.Step(w.now, last)
	r := w.n.Ready()
	begun := slices.ContainsFunc(r.Lanes[:], func(e LaneEffects) bool { return e.Look != nil || e.Plan != nil })
	if len(r.Writes) != 1 || r.Request != nil || begun {
		t.Fatalf("stopping asks for %+v, want a write alone", r)
	}
	data, err := r.Writes[0].Content()
	if n := savedLeases(t, string(data)); err != nil || n != before+2 {
		t.Errorf("%d leases saved, want %d (%v)", n, before+2, err)
	}
	w.n.Step(w.now, Input{Wrote: &Wrote{Errs: []error{errors.New("disk full")}}, Stop: true})
	w.events = w.n.Ready().Events
	if w.count("write-failed") != 1 {
		t.Errorf("events of a failed write: %v", w.events)
	}
}

// A stop that finds all saved writes nothing.
func TestStopWithNothingToSave(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.n.Step(w.now, Input{Stop: true})
	if r := w.n.Ready(); r.Writes != nil {
		t.Errorf("writes %v", r.Writes)
	}
}
