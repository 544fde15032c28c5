package node

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// work returns the counts of the host's lane.
func (w *world) work() Work { return w.status().Lanes[HostLane].Work }

// repaired returns the counts that are not 0.
func repaired(w Work) map[string]map[string]uint64 {
	counts := map[string]map[string]uint64{}
	for kind, verbs := range w.Repairs {
		for verb, number := range verbs {
			if number == 0 {
				continue
			}
			if counts[kind] == nil {
				counts[kind] = map[string]uint64{}
			}
			counts[kind][verb] = number
		}
	}
	return counts
}

// A start and a new peer are no repairs, though their kinds are counted from 0 on: a metric that begins with its first
// repair shows no growth. An object that another program deletes or
// changes is one, by its kind and by the verb that restored it.
func TestRepairsAreCounted(t *testing.T) {
	w := readyWorld(t)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.tell()
	w.pass(time.Second)
	if s := w.status(); len(s.Repairs) > 0 || len(repaired(w.work())) > 0 || w.work().Changes == 0 {
		t.Fatalf("before any fault: repairs %v, work %+v", s.Repairs, w.work())
	}
	zeros := map[string]uint64{"add": 0, "replace": 0, "del": 0}
	if d := cmp.Diff(zeros, w.work().Repairs["route"]); d != "" {
		t.Errorf("repairs of routes before any fault (-want +got):\n%s", d)
	}

	w.host.Routes.Delete(dataplane.RouteKey{Dst: mustKey("10.5.77.0-24").V4})
	w.run(hint(HostLane))
	w.pass(time.Second)
	w.wantReady()
	first := w.now
	w.unplug("flannel.1")
	w.run(hint(HostLane))
	w.pass(time.Second)
	w.wantReady()
	want := map[string]map[string]uint64{
		"link": {"add": 1}, "addr": {"replace": 1}, "sysctl": {"replace": 1},
		"fdb": {"replace": 3}, "neigh": {"replace": 3}, "route": {"add": 4},
	}
	if d := cmp.Diff(want, repaired(w.work())); d != "" {
		t.Errorf("repairs (-want +got):\n%s", d)
	}
	repairs := w.status().Repairs
	if len(repairs) != 2 || repairs[0].Changes != 12 || repairs[0].At.Before(first) || repairs[1].Changes != 1 ||
		repairs[1].Lane != "host" || repairs[1].Text != "add route 10.5.77.0/24 via 10.5.77.0 dev flannel.1 onlink" {
		t.Errorf("%+v", repairs)
	}
}

// The node remembers the newest repairs only.
func TestRepairsAreForgotten(t *testing.T) {
	w := readyWorld(t)
	for range mostRepairs + 3 {
		w.host.FDB.DeleteFunc(func(dataplane.FDBKey, dataplane.FDBEntry) bool { return true })
		w.run(hint(HostLane))
		w.pass(time.Minute)
	}
	repairs := w.status().Repairs
	newestFirst := slices.IsSortedFunc(repairs, func(a, b Repair) int { return b.At.Compare(a.At) })
	if len(repairs) != mostRepairs || !newestFirst || w.now.Sub(repairs[0].At) > 2*time.Minute {
		t.Errorf("%+v", repairs)
	}
}

// Deletes that waited for the datastore are no repairs.
func TestWithheldDeletesAreNoRepairs(t *testing.T) {
	w := readyWorld(t)
	key := mustKey("10.5.3.0-24")
	w.remove(key)
	v := w.view()
	v.Synced = false
	w.run(Input{View: v})
	w.pass(time.Minute)
	if s := w.status(); s.Withheld == 0 {
		t.Fatalf("nothing is withheld: %+v", s)
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if s := w.status(); len(s.Repairs) > 0 || s.Withheld > 0 {
		t.Errorf("repairs %+v, %d withheld", s.Repairs, s.Withheld)
	}
}

// Looks are counted by their cause.
func TestLooksAreCounted(t *testing.T) {
	w := readyWorld(t)
	before := w.work().Looks
	w.run(hint(HostLane))
	w.pass(time.Second)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.tell()
	w.pass(time.Second)
	w.pass(time.Minute)
	after := w.work()
	for cause, least := range map[string]uint64{"hint": 1, "change": 1, "plan": 1, "resync": 1} {
		if after.Looks[cause] < before[cause]+least {
			t.Errorf("%d looks with the cause %s, %d before", after.Looks[cause], cause, before[cause])
		}
	}
	if after.LastLook.IsZero() || after.FailedLooks != 0 || after.FailedOps != 0 || after.Plans == 0 {
		t.Errorf("%+v", after)
	}
}

// The subnets of a network are free, leased or reserved.
func TestSubnetsAreCounted(t *testing.T) {
	w := readyWorld(t)
	reserved := vxlanPeer("10.5.77.0-24", 77)
	reserved.ID = 0
	w.put(reserved)
	w.snap.Quarantined = []lease.Quarantined{{Key: mustKey("10.5.78.0-24")}, {}}
	w.tell()
	want := []SubnetCount{{Family: "IPv4", Total: 255, Leased: 3, Reserved: 1, Quarantined: 1, Free: 250}}
	if d := cmp.Diff(want, w.status().SubnetsBy); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// SyncedAt is the last moment at which the datastore answered.
func TestSyncedAt(t *testing.T) {
	w := readyWorld(t)
	w.down = true
	w.tell()
	since := w.now
	w.pass(time.Hour)
	if got := w.status().SyncedAt; since.Sub(got).Abs() > time.Second {
		t.Errorf("synced at %s, want about %s", got, since)
	}
}
