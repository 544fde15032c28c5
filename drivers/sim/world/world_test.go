package world

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestQueueAgainstSort pushes and cancels events at random and compares the
// order with a sort.
func TestQueueAgainstSort(t *testing.T) {
	w := New(7)
	rng := w.Rand("test")
	var want, got []int
	type planned struct {
		e  *Event
		id int
	}
	var all []planned
	for i := range 2000 {
		e := w.After(time.Duration(rng.IntN(50))*time.Millisecond, "", func() { got = append(got, i) })
		all = append(all, planned{e, i})
		if rng.IntN(3) == 0 {
			k := rng.IntN(len(all))
			all[k].e.Cancel()
			all = slices.Delete(all, k, k+1)
		}
	}
	slices.SortFunc(all, func(a, b planned) int {
		if a.e.before(b.e) {
			return -1
		}
		return 1
	})
	for _, p := range all {
		want = append(want, p.id)
	}
	w.Run(time.Second)
	if !slices.Equal(got, want) {
		t.Error("order of events differs from sorting by (time, sequence)")
	}
}

func TestInvariantStopsTheWorld(t *testing.T) {
	w := New(9)
	n := 0
	for range 5 {
		w.After(time.Second, "count", func() { n++ })
	}
	broken := errors.New("n is two")
	w.Always("small", func() error {
		if n == 2 {
			return broken
		}
		return nil
	})
	w.Run(time.Minute)
	if n != 2 || !errors.Is(w.Err(), broken) {
		t.Errorf("n=%d, err %v", n, w.Err())
	}
	if want := `at 1s, seed 9: invariant "small": n is two`; w.Err().Error() != want {
		t.Errorf("error %q, want %q", w.Err(), want)
	}
}

func TestStreamsAreIndependent(t *testing.T) {
	a, b := New(5), New(5)
	for range 10 {
		b.Rand("other").Uint64()
	}
	if x, y := a.Rand("x").Uint64(), b.Rand("x").Uint64(); x != y {
		t.Errorf("stream x depends on another stream: %d, %d", x, y)
	}
	if x, y := a.Rand("x").Uint64(), New(6).Rand("x").Uint64(); x == y {
		t.Error("stream x does not depend on the seed")
	}
	if x, y := New(5).Rand("x").Uint64(), New(5).Rand("y").Uint64(); x == y {
		t.Error("streams x and y are the same")
	}
}

func TestTraceHashTellsRunsApart(t *testing.T) {
	run := func(seed uint64) (uint64, []string) {
		w := New(seed)
		var lines []string
		w.Trace(func(l string) { lines = append(lines, l) })
		for i := range 3 {
			w.After(time.Duration(w.Rand("d").IntN(1000))*time.Millisecond, fmt.Sprintf("e%d", i), func() {})
		}
		w.Run(time.Second)
		return w.TraceHash(), lines
	}
	h1, l1 := run(1)
	h2, l2 := run(1)
	if h1 != h2 || !slices.Equal(l1, l2) {
		t.Errorf("one seed, two runs:\n%v\n%v", l1, l2)
	}
	if h3, _ := run(2); h3 == h1 {
		t.Error("another seed gave the same hash")
	}
}

func TestEventHashLeavesOutWords(t *testing.T) {
	run := func(kind, words string) (events, all uint64) {
		w := New(1)
		w.NoteWords("n1: "+kind, words)
		return w.EventHash(), w.TraceHash()
	}
	events, all := run("warning", "the disk is full")
	otherWords, allOtherWords := run("warning", "disk full")
	if events != otherWords {
		t.Error("other words gave another hash of events")
	}
	if all == allOtherWords {
		t.Error("other words gave the same hash of the trace")
	}
	if otherKind, _ := run("error", "the disk is full"); otherKind == events {
		t.Error("another kind of log gave the same hash of events")
	}
}

func TestTraceHashTellsTimesApart(t *testing.T) {
	run := func(d time.Duration) uint64 {
		w := New(1)
		w.After(d, "e", func() {})
		w.Run(time.Minute)
		return w.TraceHash()
	}
	if run(time.Second) == run(2*time.Second) {
		t.Error("one event at two times gave one hash")
	}
}
