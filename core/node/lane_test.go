package node

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/backend/all"
)

// TestHintsPushNoLookBack gives a hint every 20 ms for a minute in each lane, as
// on a host where programs change something all the time. The looks come as often
// as the lane's gap between hinted looks allows: no hint puts off a look that an
// earlier hint asked for, nor the full look that needs no hint.
func TestHintsPushNoLookBack(t *testing.T) {
	const every = 20 * time.Millisecond
	for id := range LaneCount {
		t.Run(id.String(), func(t *testing.T) {
			w := guarded(t)
			l := w.n.lanes[id]
			if !l.part.watches() {
				t.Skip("the node has nothing in this part of the host")
			}
			most := l.part.pace().hintGap + w.n.opts.Debounce + every
			for range time.Minute / every {
				w.run(hint(id))
				w.pass(every)
				if gap := w.now.Sub(l.lastLook); gap > most {
					t.Fatalf("no look for %s although hints keep coming, want one within %s", gap, most)
				}
			}
			w.wantReady()
		})
	}
}

// TestNewsAfterAQuietTime gives a hint, or a changed record, after a quiet time: the node looks within 20 ms. If
// 25 of them come within a second, it looks at most as often as if it waited before each look.
func TestNewsAfterAQuietTime(t *testing.T) {
	for name, c := range map[string]struct {
		news func(*world, int)
		most int // looks in a second of them
	}{
		"hints": {func(w *world, _ int) { w.run(hint(HostLane)) }, 3},
		"records": {func(w *world, i int) {
			w.put(vxlanPeer("10.5.3.0-24", byte(20+i)))
			w.tell()
		}, 2 * 9}, // each with the look after its plan
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t)
			w.pass(10 * time.Second)
			w.looks = nil
			began := w.now
			for i := range 25 {
				c.news(w, i)
				if i == 0 {
					w.pass(20 * time.Millisecond)
					if len(w.looks) == 0 {
						t.Fatal("no look within 20 ms of the first news")
					}
					continue
				}
				w.pass(40 * time.Millisecond)
			}
			w.pass(began.Add(time.Second + 200*time.Millisecond).Sub(w.now))
			if len(w.looks) > c.most {
				t.Errorf("%d looks in a storm, want at most %d", len(w.looks), c.most)
			}
			w.wantReady()
		})
	}
}

// TestHintMovesALookForwardOnly gives a hint while a look is already due.
func TestHintMovesALookForwardOnly(t *testing.T) {
	w := guarded(t)
	for id := range LaneCount {
		l := w.n.lanes[id]
		for _, ahead := range []time.Duration{0, time.Millisecond, time.Second, time.Hour} {
			l.lookDue = w.now.Add(ahead)
			w.n.hinted(l)
			if l.lookDue.After(w.now.Add(ahead)) {
				t.Errorf("%s: a look due in %s is put off by a hint until %s", id, ahead, l.lookDue.Sub(w.now))
			}
		}
	}
}

// TestStatusNamesEachLane reads the status of a node whose firewall cannot be read.
func TestStatusNamesEachLane(t *testing.T) {
	w := guarded(t)
	lanes := w.n.Status().Lanes
	for id := range LaneCount {
		if l := lanes[id]; l.Name != id.String() || l.Name == "" || !l.AsDesired || l.Watched != (id < CommandsLane) {
			t.Errorf("lane %d: %+v", id, l)
		}
	}
	w.run(looked(FirewallLane, Looked{Err: errors.New("nft: out of memory")}))
	if l := w.n.Status().Lanes[FirewallLane]; l.AsDesired || l.FailingFor == 0 || l.Failures[0] != "nft: out of memory" {
		t.Errorf("after a failed look: %+v", l)
	}
}

// TestBackendsNameLanes checks that each lane that a backend needs is one of the node's.
func TestBackendsNameLanes(t *testing.T) {
	for _, spec := range all.Specs() {
		for _, name := range spec.Lanes {
			if !slices.Contains(laneNames[:], name) {
				t.Errorf("%s needs the lane %q; there are %v", spec.Type, name, laneNames)
			}
		}
	}
}
