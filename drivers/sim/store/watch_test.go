package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestStoreCompactUnderStream compacts the store: a stream that is behind ends,
// one that is not stays.
func TestStoreCompactUnderStream(t *testing.T) {
	w, s, c := storeWorld(t, 6)
	var seen []error
	c.OnChange(func() { seen = append(seen, c.View().Err) })
	s.Compact()
	mustCreate(t, c, 1, time.Hour) // under way
	mustCreate(t, c, 2, time.Hour) // waits for it
	s.Compact()
	w.Run(time.Second)
	if !slices.Contains(seen, errStoreCompacted) {
		t.Errorf("the stream did not end: %v", seen)
	}
	seen = nil
	s.Compact()
	w.Run(time.Second)
	if len(seen) != 0 {
		t.Errorf("the stream was not behind, but: %v", seen)
	}
	awaitSync(t, w, s, c)
}

// TestStoreCompactBeforeWatch compacts between a client's list and its watch.
func TestStoreCompactBeforeWatch(t *testing.T) {
	w := world.New(6)
	s := New(w, Options{})
	c := s.Client("n1", ClientOptions{})
	var seen []error
	c.OnChange(func() {
		seen = append(seen, c.View().Err)
		if s.Revision() == 1 {
			must(t, s.Put("subnets/10.5.1.0-24", `{"PublicIP":"192.168.64.1"}`, 0))
			s.Compact()
		}
	})
	w.Run(time.Second)
	if !slices.Contains(seen, errStoreCompacted) {
		t.Errorf("views %v, want %v among them", seen, errStoreCompacted)
	}
	awaitSync(t, w, s, c)
}

// TestStoreResume cuts off a client while the store changes, with the history
// kept and with it compacted away.
func TestStoreResume(t *testing.T) {
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprintf("compact=%v", compact), func(t *testing.T) {
			w, s, c := storeWorld(t, 7)
			other := s.Client("n2", ClientOptions{})
			gone := mustCreate(t, c, 1, time.Hour)
			awaitSync(t, w, s, c)
			c.Cut(true)
			mustCreate(t, other, 2, time.Hour)
			if err := other.Release(context.Background(), gone); err != nil {
				t.Fatal(err)
			}
			mustCreate(t, other, 3, time.Hour)
			if compact {
				s.Compact()
			}
			w.Run(20 * time.Second)
			if v := c.View(); v.Synced || len(v.Snapshot.Leases) != 1 {
				t.Fatalf("cut off, but: %+v", v)
			}
			c.Cut(false)
			awaitSync(t, w, s, c)
			if got := c.View().Snapshot.Leases; len(got) != 2 || got[0].Key != testKey(2) || got[1].Key != testKey(3) {
				t.Errorf("leases after the cut: %+v", got)
			}
		})
	}
}

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

// TestStoreStaleFirstList lets a first read be old; the stream brings the rest.
func TestStoreStaleFirstList(t *testing.T) {
	w, s, c := storeWorld(t, 9)
	mustCreate(t, c, 1, time.Hour)
	s.SetFaults(Faults{StaleList: 1})
	late := s.Client("n2", ClientOptions{})
	var seen []int64
	late.OnChange(func() { seen = append(seen, late.View().Snapshot.Revision) })
	w.Run(time.Second)
	late.BreakStream()
	w.Run(time.Second)
	awaitSync(t, w, s, late)
	if want := []int64{1, 2}; !slices.Equal(slices.Compact(seen), want) {
		t.Errorf("revisions seen %v, want %v", seen, want)
	}
}

// TestStoreSilentLoss loses a change or the end of the stream in a short
// partition: the ping finds the loss.
func TestStoreSilentLoss(t *testing.T) {
	losses := map[string]func(*Store, *Client){
		"change": func(s *Store, other *Client) { mustCreate(t, other, 1, time.Hour) },
		"end":    func(s *Store, _ *Client) { s.LoseLeader(time.Millisecond) },
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			w, s, c := storeWorld(t, 9)
			other := s.Client("n2", ClientOptions{})
			awaitSync(t, w, s, other)
			c.Cut(true)
			lose(s, other)
			w.Run(100 * time.Millisecond)
			c.Cut(false)
			mustCreate(t, other, 2, time.Hour)
			if v := c.View(); !v.Synced || len(v.Snapshot.Leases) != 0 {
				t.Fatalf("the loss did not go unnoticed: %+v", v)
			}
			w.Run(20 * time.Second)
			awaitSync(t, w, s, c)
		})
	}
}

// TestStoreFreeze halts a process: arrivals wait for it, in order.
func TestStoreFreeze(t *testing.T) {
	w, s, c := storeWorld(t, 10)
	g := mustCreate(t, c, 1, time.Hour)
	ended := 0
	c.Do(node.Request{Verb: node.Update, Grant: g, Attrs: testAttrs(2), TTL: time.Hour}, func(r node.Requested) {
		ended++
		if r.Err != nil {
			t.Errorf("the answer was there before the deadline: %v", r.Err)
		}
	})
	before := c.View()
	c.Freeze(true)
	w.Run(time.Minute)
	if ended != 0 || c.View() != before {
		t.Error("a halted process took something in")
	}
	c.Freeze(false)
	if ended != 1 {
		t.Errorf("the answer came %d times", ended)
	}
	awaitSync(t, w, s, c)
}

func TestStoreClosedClientIsSilent(t *testing.T) {
	w, s, c := storeWorld(t, 11)
	g := mustCreate(t, c, 1, 10*time.Second)
	c.OnChange(func() { t.Error("change after Close") })
	c.Do(node.Request{Verb: node.Release, Grant: g}, func(node.Requested) { t.Error("answer after Close") })
	c.Close()
	w.Run(time.Second)
	if len(s.Snapshot().Leases) != 0 {
		t.Error("a request on its way did not reach the server")
	}
	w.Run(time.Minute)
	if len(s.streams) != 0 || w.Pending() != 0 {
		t.Errorf("%d streams, %d events are left", len(s.streams), w.Pending())
	}
}

// TestStoreMemberRestart ends the streams of 1,000 clients at once. They resume
// at their revisions; only after a compaction do they read everything.
func TestStoreMemberRestart(t *testing.T) {
	const nodes = 1000
	for name, c := range map[string]struct {
		compact bool
		lists   int
		most    int64 // bytes in all
	}{
		"history kept":      {false, 0, nodes * 400},
		"history compacted": {true, nodes, nodes * nodes * 300},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(12)
			s := New(w, Options{})
			for i := range nodes {
				key := fmt.Sprintf("subnets/10.%d.%d.0-24", 6+i/250, i%250)
				const form = `{"PublicIP":"192.168.%d.%d","PublicIPv6":null,"BackendType":"vxlan",` +
					`"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:%02x:%02x"}}`
				must(t, s.Put(key, fmt.Sprintf(form, i/250, 1+i%250, i/256, i%256), 0))
			}
			clients := make([]*Client, nodes)
			for i := range clients {
				clients[i] = s.Client(fmt.Sprintf("n%d", i), ClientOptions{})
			}
			w.Run(10 * time.Second)
			before := s.Served()
			s.Stop()
			w.Run(time.Second)
			s.Start()
			must(t, s.Put("subnets/10.99.1.0-24", `{"PublicIP":"192.168.99.1"}`, 0))
			if c.compact {
				s.Compact()
			}
			w.Run(30 * time.Second)
			for _, client := range clients {
				awaitSync(t, w, s, client)
			}
			lists, bytes := s.Served().Lists-before.Lists, s.Served().Bytes-before.Bytes
			t.Logf("%d lists, %d bytes", lists, bytes)
			if lists != c.lists || bytes > c.most {
				t.Errorf("%d lists, %d bytes; want %d lists, at most %d bytes", lists, bytes, c.lists, c.most)
			}
		})
	}
}
