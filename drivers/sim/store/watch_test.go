package store

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// TestStoreStreamFaults runs a stream through every fault: each view equals a
// state of the store, views never go back, and the last one is the truth.
func TestStoreStreamFaults(t *testing.T) {
	faults := map[string]Faults{
		"delay":     {WatchDelay: 2 * time.Second},
		"lose":      {WatchLose: 0.3},
		"duplicate": {WatchDuplicate: 0.5, WatchDelay: time.Second},
		"reorder":   {WatchReorder: 0.3},
		"break":     {WatchBreak: 0.3},
		"stale":     {StaleList: 1, WatchLose: 0.3},
		"all": {WatchDelay: time.Second, WatchLose: 0.1, WatchDuplicate: 0.2, WatchReorder: 0.2,
			WatchBreak: 0.1, StaleList: 0.5},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			w, s, c := storeWorld(t, 8)
			s.SetFaults(f)
			history := map[int64]*lease.Snapshot{}
			w.Always("history", func() error { history[s.Revision()] = s.Snapshot(); return nil })
			views, breaks := 0, 0
			last := int64(0)
			c.OnChange(func() {
				v := c.View()
				views++
				if !v.Synced {
					breaks++
				}
				if v.Snapshot.Revision < last {
					t.Errorf("the view went back from %d to %d", last, v.Snapshot.Revision)
				}
				last = v.Snapshot.Revision
				if want := history[last]; want != nil && want != v.Snapshot {
					t.Errorf("view %d is not what the store had", last)
				}
			})
			writer := s.Client("n2", ClientOptions{})
			for i := range 100 {
				w.After(time.Duration(i)*200*time.Millisecond, "write", func() {
					mustCreate(t, writer, i+1, time.Hour)
				})
			}
			w.Run(20 * time.Second)
			s.SetFaults(Faults{})
			w.Run(15 * time.Second) // a lost batch is noticed by the ping
			if v := c.View(); !v.Synced || v.Snapshot != s.Snapshot() {
				t.Errorf("after the faults: synced %v, revision %d of %d", v.Synced, v.Snapshot.Revision, s.Revision())
			}
			if wantBreaks := name != "delay" && name != "duplicate"; (breaks > 0) != wantBreaks {
				t.Errorf("%d breaks in %d views", breaks, views)
			}
		})
	}
}
