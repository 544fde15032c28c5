package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/lease"
)

const testDir = "/coreos.com/network/subnets/"

// history is a model of an etcd: the writes, in order.
type history struct {
	revision int64
	now      map[string]*mvccpb.KeyValue
	events   []*clientv3.Event
}

func (h *history) put(key, value string, id int64) {
	h.revision++
	kv := &mvccpb.KeyValue{
		Key: []byte(key), Value: []byte(value), Lease: id,
		CreateRevision: h.revision, ModRevision: h.revision,
	}
	if old := h.now[key]; old != nil {
		kv.CreateRevision = old.CreateRevision
	}
	h.now[key] = kv
	h.events = append(h.events, &clientv3.Event{Type: clientv3.EventTypePut, Kv: kv})
}

func (h *history) remove(key string) {
	if h.now[key] == nil {
		return
	}
	h.revision++
	delete(h.now, key)
	h.events = append(h.events, &clientv3.Event{
		Type: clientv3.EventTypeDelete,
		Kv:   &mvccpb.KeyValue{Key: []byte(key), ModRevision: h.revision},
	})
}

// list returns the answer of etcd to a list, in its order.
func (h *history) list() []*mvccpb.KeyValue {
	var kvs []*mvccpb.KeyValue
	for _, kv := range h.now {
		kvs = append(kvs, kv)
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return kvs
}

// TestWatchingIsListing makes random writes and reads them in random portions:
// watching and listing end in the same snapshot.
func TestWatchingIsListing(t *testing.T) {
	keys := []string{
		"10.5.1.0-24", "10.5.1.9-24", "a/10.5.1.0-24", "10.5.10.0-24", "10.5.9.0-24",
		"10.5.9.0-24&fd00:10:5:9::-64", "0.0.0.0-0&fd00::-64", "0.0.0.0-0", "10.5.1.0-33", "x", "",
	}
	values := []string{value("192.0.2.1"), value("192.0.2.2"), "{}", "not JSON", ""}
	rapid.Check(t, func(t *rapid.T) {
		h := &history{now: map[string]*mvccpb.KeyValue{}}
		watched := newTable(testDir, listed{}, nil)
		var seen int
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			k := testDir + rapid.SampledFrom(keys).Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				h.put(k, rapid.SampledFrom(values).Draw(t, "value"), rapid.Int64Range(0, 2).Draw(t, "id"))
			} else {
				h.remove(k)
			}
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0: // see every later change
				watched.apply(h.events[seen:])
				seen = len(h.events)
			case 1: // see some changes again
				again := rapid.IntRange(0, seen).Draw(t, "again")
				watched.apply(h.events[again:seen])
			case 2: // lose the stream
				watched = newTable(testDir, listed{revision: h.revision, leases: h.list()}, watched)
				seen = len(h.events)
			}
		}
		watched.apply(h.events[seen:])
		got, _ := watched.snapshot()

		// A list knows no former values, so the comparison omits leases that
		// stand in for a bad value.
		want, _ := newTable(testDir, listed{revision: h.revision, leases: h.list()}, nil).snapshot()
		if diff := cmp.Diff(current(h, want), current(h, got), comparers()); diff != "" {
			t.Fatalf("watched (-listed +watched):\n%s", diff)
		}
		names := make([]string, len(got.Leases))
		for i, l := range got.Leases {
			names[i] = l.Key.String()
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatalf("not sorted, or twice the same: %v", names)
		}
	})
}

// TestWipedDataLendsNothing checks that the stand-in for a bad value is a former
// value of the same record, and not of another record that had the same key and
// revisions before the datastore lost its data.
func TestWipedDataLendsNothing(t *testing.T) {
	old := &history{now: map[string]*mvccpb.KeyValue{}}
	old.put(testDir+"10.5.1.0-24", value("192.0.2.1"), 1)
	before := newTable(testDir, listed{revision: 100, leases: old.list()}, nil)
	wiped := &history{now: map[string]*mvccpb.KeyValue{}}
	wiped.put(testDir+"10.5.1.0-24", "not JSON", 0)

	for _, tt := range []struct {
		revision int64
		want     int
	}{{100, 1}, {99, 0}} {
		s, _ := newTable(testDir, listed{revision: tt.revision, leases: wiped.list()}, before).snapshot()
		if len(s.Leases) != tt.want || len(s.Quarantined) != 1 || (s.Quarantined[0].OverwroteAt > 0) != (tt.want > 0) {
			t.Errorf("at revision %d: %v, %v, want %d leases", tt.revision, s.Leases, s.Quarantined, tt.want)
		}
	}
}

// current returns the snapshot with only those leases and quarantines that
// the present values account for.
func current(h *history, s *lease.Snapshot) lease.Snapshot {
	bad := map[lease.Key]bool{}
	for _, q := range s.Quarantined {
		bad[q.Key] = true
	}
	c := lease.Snapshot{Revision: s.Revision}
	for _, l := range s.Leases {
		if !bad[l.Key] {
			c.Leases = append(c.Leases, l)
		}
	}
	for _, q := range s.Quarantined {
		if !strings.Contains(q.Reason, "already") && h.now[q.Raw] != nil {
			q.OverwroteAt = 0 // a list cannot know
			q.OverwroteAt = 0
			c.Quarantined = append(c.Quarantined, q)
		}
	}
	return c
}

func comparers() cmp.Options {
	sameAttrs := cmp.Comparer(func(a, b lease.Attrs) bool { return fmt.Sprint(a) == fmt.Sprint(b) })
	return cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateComparable(lease.Key{}), sameAttrs}
}

// TestSpread checks that the time over which nodes spread their lists grows with
// the number of nodes.
func TestSpread(t *testing.T) {
	for peers, want := range map[int]time.Duration{
		0: 0, 3: 30 * time.Millisecond, 1000: 10 * time.Second, 5000: 50 * time.Second, 50_000: time.Minute,
	} {
		if got := spreadOf(peers); got != want {
			t.Errorf("%d peers: %s, want %s", peers, got, want)
		}
	}
}
