package leasetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// badRecords are records that another program may put below the subnets.
var badRecords = []struct {
	name, value string
	key         string // that it blocks all the same; empty: none
}{
	{"10.5.1.0-24", "garbage", "10.5.1.0-24"},
	{"10.5.2.0-24", "", "10.5.2.0-24"},
	{"10.5.3.0-24", "null", "10.5.3.0-24"},
	{"10.5.4.0-24", `{"PublicIP":"not an address"}`, "10.5.4.0-24"},
	{"10.5.5.0-24", `{"PublicIP":["192.168.64.3"]}`, "10.5.5.0-24"},
	{"10.5.6.0-24&fd00:10:5:1::-64", "{", "10.5.6.0-24&fd00:10:5:1::-64"},
	{"10.5.7.0-32", `{"PublicIP":"192.168.64.3"}`, ""},
	{"10.5.8.0-24&fd00::-128", `{"PublicIP":"192.168.64.3"}`, ""},
	{"10.5.9.0", `{"PublicIP":"192.168.64.3"}`, ""},
	{"garbage", `{"PublicIP":"192.168.64.3"}`, ""},
	{"300.5.1.0-24", `{"PublicIP":"192.168.64.3"}`, ""},
}

var quarantineCases = []kase{
	{"a bad record affects no other", func(t *testing.T, s *suite) {
		good := s.create(t, s.own, "10.5.100.0-24", "192.168.64.1", long)
		s.awaitLeases(t, good.Lease)
		for _, bad := range badRecords {
			s.Put(t, "subnets/"+bad.name, bad.value, 0)
		}
		for _, st := range []lease.Store{s.own, s.Open(t)} { // by watching, by listing
			snap := s.awaitSnapshot(t, st, "all bad records", func(snap *lease.Snapshot) bool {
				return len(snap.Quarantined) == len(badRecords)
			})
			wantQuarantined(t, snap.Quarantined)
			if len(snap.Leases) != 1 || snap.Leases[0].Key != good.Key {
				t.Errorf("leases %+v, want the good one", snap.Leases)
			}
		}
		last := s.create(t, s.own, "10.5.200.0-24", "192.168.64.2", long)
		s.awaitLeases(t, good.Lease, last.Lease)
	}},
	{"the last good record stays in force", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		s.Put(t, name(g.Key), "garbage", 0)
		s.awaitQuarantined(t, 1)
		s.awaitLeases(t, g.Lease)
		s.Put(t, name(g.Key), "other garbage", 0)
		s.create(t, s.own, "10.5.0.0-24", "192.168.64.2", long)
		snap := s.awaitSnapshot(t, s.other, "the new one", func(snap *lease.Snapshot) bool { return len(snap.Leases) == 2 })
		if len(snap.Quarantined) != 1 || snap.Leases[1].ModRevision != g.ModRevision {
			t.Errorf("snapshot %+v, want the lease of revision %d still", snap, g.ModRevision)
		}
	}},
	{"a deleted bad record is gone", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		s.Put(t, name(g.Key), "garbage", 0)
		s.awaitQuarantined(t, 1)
		s.Delete(t, name(g.Key))
		s.awaitQuarantined(t, 0)
		s.awaitLeases(t)
	}},
	{"a good value heals a bad record", func(t *testing.T, s *suite) {
		s.Put(t, "subnets/10.5.1.0-24", "garbage", 0)
		s.awaitQuarantined(t, 1)
		s.Put(t, "subnets/10.5.1.0-24", value("192.168.64.9"), 0)
		s.awaitQuarantined(t, 0)
		snap := s.other.View().Snapshot
		if len(snap.Leases) != 1 || snap.Leases[0].Attrs.PublicIP != attrs("192.168.64.9").PublicIP {
			t.Errorf("leases %+v", snap.Leases)
		}
	}},
	{"a bad record is not overwritten", func(t *testing.T, s *suite) {
		k := key("10.5.1.0-24")
		s.Put(t, name(k), "garbage", 0)
		_, err := s.own.Create(context.Background(), k, attrs("192.168.64.1"), long)
		s.wantConflict(t, err, k)
		s.wantRecord(t, k, Record{Value: "garbage"})
	}},
	{"a node cannot change its record after garbage overwrote it", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Put(t, name(g.Key), "garbage", 0)
		_, err := s.own.Update(context.Background(), g, attrs("192.168.64.9"), long)
		s.wantConflict(t, err, g.Key)
		if err := s.own.Release(context.Background(), g); err != nil {
			t.Errorf("release: %v", err)
		}
		s.wantRecord(t, g.Key, Record{Value: "garbage"})
	}},
	{"one subnet has one lease, however it is spelt", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Put(t, "subnets/10.5.1.7-24", value("192.168.64.8"), 0)
		s.Put(t, "subnets/0/10.5.1.0-24", value("192.168.64.9"), 0)
		s.awaitQuarantined(t, 2)
		s.awaitLeases(t, g.Lease)
	}},
}

func (s *suite) awaitQuarantined(t *testing.T, n int) {
	t.Helper()
	for _, st := range []lease.Store{s.own, s.other} {
		s.awaitSnapshot(t, st, "quarantine", func(snap *lease.Snapshot) bool { return len(snap.Quarantined) == n })
	}
}

// wantQuarantined checks for all bad records.
func wantQuarantined(t *testing.T, got []lease.Quarantined) {
	t.Helper()
	if !slices.IsSortedFunc(got, func(a, b lease.Quarantined) int { return strings.Compare(a.Raw, b.Raw) }) {
		t.Errorf("not sorted: %+v", got)
	}
	for _, bad := range badRecords {
		i := slices.IndexFunc(got, func(q lease.Quarantined) bool { return strings.HasSuffix(q.Raw, "/subnets/"+bad.name) })
		if i < 0 {
			t.Errorf("%s is not in quarantine", bad.name)
			continue
		}
		var want lease.Key
		if bad.key != "" {
			want = key(bad.key)
		}
		if got[i].Key != want || got[i].Reason == "" {
			t.Errorf("%s: %+v, want key %q and a reason", bad.name, got[i], bad.key)
		}
	}
}
