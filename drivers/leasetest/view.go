package leasetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/lease"
)

var viewCases = []kase{
	{"an empty datastore is a snapshot", func(t *testing.T, s *suite) {
		snap := s.awaitSnapshot(t, s.own, "sync", func(*lease.Snapshot) bool { return true })
		if len(snap.Leases)+len(snap.Quarantined) != 0 || snap.Config.Revision != 0 || snap.Config.Data != nil {
			t.Errorf("snapshot of nothing: %+v", snap)
		}
		if v := s.own.View(); v.Err != nil {
			t.Errorf("synced, but: %v", v.Err)
		}
	}},
	{"the config is followed", func(t *testing.T, s *suite) {
		var last lease.Document
		for _, text := range []string{`{"Network":"10.5.0.0/16"}`, "anything", `{"Network":"10.5.0.0/16"}`} {
			s.Put(t, "config", text, 0)
			doc := s.awaitConfig(t, text)
			if doc.Revision <= last.Revision {
				t.Errorf("config changed, but its revision went from %d to %d", last.Revision, doc.Revision)
			}
			last = doc
		}
		s.Delete(t, "config")
		s.awaitSnapshot(t, s.own, "no config", func(snap *lease.Snapshot) bool { return snap.Config.Revision == 0 })
	}},
	{"leases and config appear together", func(t *testing.T, s *suite) {
		s.Put(t, "config", `{"Network":"10.5.0.0/16"}`, 0)
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		late := s.Open(t)
		s.awaitSnapshot(t, late, "the first snapshot", func(snap *lease.Snapshot) bool {
			if len(snap.Leases) != 1 || string(snap.Config.Data) != `{"Network":"10.5.0.0/16"}` {
				t.Errorf("first snapshot is not whole: %+v", snap)
			}
			if snap.Revision < g.ModRevision {
				t.Errorf("first snapshot at %d holds a record of %d", snap.Revision, g.ModRevision)
			}
			return true
		})
	}},
	{"leases are sorted by key", func(t *testing.T, s *suite) {
		keys := []string{"10.5.9.0-24", "10.5.10.0-24", "0.0.0.0-0&fd00:10:5:1::-64", "10.5.34.0-24&fd00:10:5:1::-64",
			"10.5.1.0-24"}
		for i, k := range keys {
			s.create(t, s.own, k, spread("192.168.64.N", i), long)
		}
		want := slices.Sorted(slices.Values(keys))
		for _, st := range []lease.Store{s.other, s.Open(t)} { // by watching, by listing
			snap := s.awaitSnapshot(t, st, "all leases",
				func(snap *lease.Snapshot) bool { return len(snap.Leases) == len(keys) })
			var got []string
			for _, l := range snap.Leases {
				got = append(got, l.Key.String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("keys %v, want %v", got, want)
			}
		}
	}},
	{"values survive", func(t *testing.T, s *suite) {
		for i, text := range validValues {
			k := key(spread("10.5.N.0-24", i))
			s.Put(t, name(k), text, 0)
		}
		snap := s.awaitSnapshot(t, s.own, "all values",
			func(snap *lease.Snapshot) bool { return len(snap.Leases) == len(validValues) })
		for _, l := range snap.Leases {
			rec, _ := s.Get(t, name(l.Key))
			want, err := lease.DecodeAttrs([]byte(rec.Value))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, l.Attrs, sameValues); diff != "" {
				t.Errorf("%s, -want +got:\n%s", rec.Value, diff)
			}
		}
	}},
	{"a snapshot never changes", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.create(t, s.own, "10.5.3.0-24", "192.168.64.3", long)
		snap := s.awaitSnapshot(t, s.other, "both", func(snap *lease.Snapshot) bool { return len(snap.Leases) == 2 })
		before := *snap
		before.Leases, before.Quarantined = nil, slices.Clone(snap.Quarantined)
		for _, l := range snap.Leases {
			before.Leases = append(before.Leases, new(*l))
		}
		if _, err := s.own.Update(context.Background(), g, attrs("192.168.64.7"), long); err != nil {
			t.Fatal(err)
		}
		s.Delete(t, "subnets/10.5.3.0-24")
		s.Put(t, "subnets/garbage", "garbage", 0)
		s.Put(t, "config", "{}", 0)
		s.create(t, s.own, "10.5.2.0-24", "192.168.64.2", long)
		s.awaitSnapshot(t, s.other, "the changes", func(now *lease.Snapshot) bool {
			return len(now.Quarantined) == 1 && len(now.Leases) == 2 && now.Leases[1].Key == key("10.5.2.0-24")
		})
		if diff := cmp.Diff(&before, snap, sameValues, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the old snapshot, -before +after:\n%s", diff)
		}
	}},
	{"changes are announced", func(t *testing.T, s *suite) {
		s.awaitLeases(t)
		for i, k := range []string{"10.5.1.0-24", "10.5.2.0-24"} {
			s.create(t, s.own, k, spread("192.168.64.N", i), long)
			s.Await(t, "word of "+k, func() bool {
				select {
				case <-s.other.Changed():
				default:
					return false
				}
				snap := s.other.View().Snapshot
				return slices.ContainsFunc(snap.Leases, func(l *lease.Lease) bool { return l.Key == key(k) })
			})
		}
	}},
	{"compaction loses nothing", func(t *testing.T, s *suite) {
		var want []lease.Lease
		for i := range 5 {
			want = append(want, s.create(t, s.own, spread("10.5.N.0-24", i), spread("192.168.64.N", i), long).Lease)
			s.Compact(t)
		}
		s.awaitLeases(t, want...)
		want = append(want, s.create(t, s.other, "10.5.99.0-24", "192.168.64.99", long).Lease)
		s.awaitLeases(t, want...)
	}},
	{"records beside the subnets are invisible", func(t *testing.T, s *suite) {
		s.Put(t, "subnets-old/10.5.1.0-24", value("192.168.64.1"), 0)
		s.Put(t, "subnets", "a value", 0)
		s.Put(t, "configuration", "{}", 0)
		g := s.create(t, s.own, "10.5.2.0-24", "192.168.64.2", long)
		s.awaitLeases(t, g.Lease)
		if snap := s.own.View().Snapshot; len(snap.Quarantined) != 0 || snap.Config.Revision != 0 {
			t.Errorf("seen: %+v, config %+v", snap.Quarantined, snap.Config)
		}
	}},
}

func (s *suite) awaitConfig(t *testing.T, text string) lease.Document {
	t.Helper()
	for _, st := range []lease.Store{s.own, s.other} {
		s.awaitSnapshot(t, st, "config "+text, func(snap *lease.Snapshot) bool {
			return snap.Config.Revision != 0 && string(snap.Config.Data) == text
		})
	}
	return s.own.View().Snapshot.Config
}

// spread makes the i-th key of a pattern.
func spread(pattern string, i int) string {
	return strings.Replace(pattern, "N", string(rune('1'+i)), 1)
}

// validValues are records as all backends and releases write them (interop 3.3).
var validValues = []string{
	`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}}`,
	`{"PublicIP":"192.168.64.3","PublicIPv6":"fd00:a::3","BackendType":"vxlan",` +
		`"BackendData":{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"},"BackendV6Data":{"VNI":1,"VtepMAC":"3e:0b:11:22:33:44"}}`,
	`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"host-gw"}`,
	`{"PublicIP":"192.168.64.3"}`,
	`{"PublicIP":"0.0.0.0","PublicIPv6":"fd00:a::3","BackendType":"host-gw"}`,
	`{ "BackendType": "wireguard", "BackendData": {"PublicKey":"eA=="}, "PublicIP": "192.168.64.3", "Unknown": [1] }`,
	`{"PublicIP":"192.168.64.3","PublicIPv6":null,"BackendType":"extension","BackendData":"some\ntext"}`,
}
