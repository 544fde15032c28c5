package node

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
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

// A write that fails is reported once, keeps the node from being ready, and is
// tried again after pauses that grow to a minute.
func TestFailedWrites(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	var tries []time.Time
	full := func(f File) error {
		if f != SubnetFile {
			return nil
		}
		if len(tries) == 0 && !slices.Contains(w.status().Reasons, "the subnet file is not written") {
			t.Errorf("during the first write, the reasons are %q", w.status().Reasons)
		}
		tries = append(tries, w.now)
		return errors.New("disk full")
	}
	w.writeErr = full
	w.tell()
	w.run(Input{}) // which asks for nothing before the pause is over
	if len(tries) != 1 || !slices.Contains(w.status().Reasons, "the subnet file is not written: disk full") {
		t.Fatalf("%d tries, reasons %q", len(tries), w.status().Reasons)
	}
	w.pass(10 * time.Minute)
	between := func(i int, least, most time.Duration) {
		t.Helper()
		if pause := tries[i].Sub(tries[i-1]); pause < least*4/5 || pause > most*6/5 {
			t.Errorf("a pause of %s before try %d, want about %s", pause, i, most)
		}
	}
	between(1, 2*time.Second, 2*time.Second)
	between(len(tries)-1, time.Minute, time.Minute)
	if got := w.count("write-failed"); got != 1 {
		t.Errorf("reported %d times\n%s", got, w.log())
	}
	w.writeErr = nil
	w.pass(2 * time.Minute)
	w.wantReady()
	if at := w.n.files.wake(); !at.IsZero() {
		t.Errorf("wakes at %s, with nothing left to write", at)
	}
	// The next failure begins with a short pause, and a wake to save is not forgotten.
	tries, w.writeErr = nil, full
	delete(w.files, SubnetFile)
	w.run(hint(HostLane))
	w.pass(10 * time.Second)
	between(1, 2*time.Second, 2*time.Second)
	if w.count("subnet-file-gone") != 1 {
		t.Errorf("want the lost file reported once\n%s", w.log())
	}
}

// The node wakes to save its state, however early the change came.
func TestWakesToSave(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	for _, n := range []byte{77, 78} {
		w.put(vxlanPeer("10.5.77.0-24", n))
		w.tell()
	}
	due := w.n.files.saveDue
	if at := w.n.files.wake(); !due.After(w.now) || !at.Equal(due) {
		t.Errorf("wakes at %s, want %s", at, due)
	}
	w.pass(due.Sub(w.now))
	if got := savedLeases(t, w.files[StateFile]); got != len(w.snap.Leases) {
		t.Errorf("%d leases saved of %d", got, len(w.snap.Leases))
	}
}

// The subnet file says whether the node masquerades.
func TestSubnetFileNamesMasquerading(t *testing.T) {
	w := guarded(t)
	if !strings.Contains(w.files[SubnetFile], "FLANNEL_IPMASQ=true\n") {
		t.Errorf("subnet file %q, want FLANNEL_IPMASQ=true", w.files[SubnetFile])
	}
}

// Another text in the subnet file is news only if this run has written the file, the
// look began after that, and no other write of it is under way.
func TestForeignSubnetFile(t *testing.T) {
	for _, c := range []struct {
		written []byte
		seen    bool
		writing File // a write under way; 0: none
		gone    int
	}{
		{[]byte("ours"), true, 0, 1},
		{[]byte("ours"), true, SubnetFile, 0},
		{[]byte("ours"), true, StateFile, 1},
		{[]byte("ours"), false, 0, 0},
		{[]byte("ours"), false, SubnetFile, 0},
		{[]byte("theirs"), true, 0, 0},
		{nil, true, 0, 0},
		{nil, false, 0, 0},
	} {
		w := newWorld(t, vxlanConfig)
		w.n.files = fileState{subnet: c.written, seen: c.seen, busy: c.writing != 0}
		if c.writing != 0 {
			w.n.files.writing = []Write{{File: c.writing}}
		}
		w.n.sawSubnetFile([]byte("theirs"))
		if events := w.n.Ready().Events; len(events) != c.gone {
			t.Errorf("%+v: logged %v, want %d lines", c, events, c.gone)
		}
	}
}

// A config whose network has another size is announced once the host is as it asks,
// and not before.
func TestAnnouncesAChangedNetworkInTime(t *testing.T) {
	w := readyWorld(t)
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Revision: w.rev,
		Data: []byte(`{"Network":"10.4.0.0/15","SubnetLen":24,"Backend":{"Type":"vxlan","VNI":7}}`)}
	w.n.Step(w.now, Input{View: w.view()})
	r := w.n.Ready()
	for _, write := range r.Writes {
		if write.File == SubnetFile {
			t.Errorf("announces %s before the host has a device for it", write.Data)
		}
	}
	in, _ := w.perform(r)
	w.run(in)
	w.pass(time.Minute)
	w.wantReady()
	if !strings.Contains(w.files[SubnetFile], "FLANNEL_NETWORK=10.4.0.0/15\n") {
		t.Errorf("subnet file %q at the end", w.files[SubnetFile])
	}
}

// The network moves while the node's lease has run out, so the host loses the address in the former subnet. An answer
// that renews the lease after all does not announce that subnet.
func TestAnnouncesNoSubnetThatTheHostHasLost(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.LeaseTTL = time.Minute })
	w.ttl = time.Minute
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.answer = func(Request) (lease.Grant, error) { return lease.Grant{}, errors.New("no answer") }
	w.pass(2 * time.Minute)
	if !w.status().Fenced {
		t.Fatalf("not fenced\n%s", w.log())
	}
	w.configure(strings.Replace(vxlanConfig, "10.5", "10.6", 1))
	w.pass(time.Second)
	if own := w.n.lease.self.Key.String(); strings.Contains(w.host.Dump(), strings.TrimSuffix(own, ".0-24")) {
		t.Fatalf("the host keeps %s:\n%s", own, w.host.Dump())
	}
	w.answer = nil
	w.pass(time.Minute)
	w.wantReady()
	for _, text := range w.logged("subnet-file") {
		if strings.Contains(text, "NETWORK=10.6") && strings.Contains(text, "SUBNET=10.5") {
			t.Errorf("announces %s", text)
		}
	}
}
