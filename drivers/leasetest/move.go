package leasetest

import (
	"context"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

var moveCases = []kase{
	{"move replaces a record by one under another key", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24&fd00:10:5:1::-64", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		moved, err := s.own.Move(context.Background(), g, key("10.5.1.0-24"), attrs("192.168.64.3"), long)
		if err != nil {
			t.Fatal(err)
		}
		if moved.Key != key("10.5.1.0-24") || moved.CreateRevision != moved.ModRevision ||
			moved.ModRevision <= g.ModRevision || moved.Reserved() || moved.TTL != long {
			t.Errorf("moved %+v to %+v", g, moved)
		}
		s.awaitLeases(t, moved.Lease)
		s.wantRecord(t, moved.Key, Record{Value: value("192.168.64.3"), TTL: true})
		if _, exists := s.Get(t, name(g.Key)); exists {
			t.Error("the former record still exists")
		}
		if _, err := s.own.Renew(context.Background(), moved); err != nil {
			t.Error(err)
		}
	}},
	{"no snapshot shows a moment between the two records", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		for _, k := range []string{"10.5.2.0-24", "10.5.3.0-24", "10.5.4.0-24"} {
			moved, err := s.own.Move(context.Background(), g, key(k), g.Attrs, long)
			if err != nil {
				t.Fatal(err)
			}
			s.awaitSnapshot(t, s.other, "the move to "+k, func(snap *lease.Snapshot) bool {
				if len(snap.Leases) != 1 {
					t.Errorf("a snapshot of revision %d has %d records", snap.Revision, len(snap.Leases))
				}
				return snap.Revision >= moved.ModRevision
			})
			g = moved
		}
	}},
	{"a former run's lease is moved, with another TTL", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
		moved, err := s.own.Move(context.Background(), lease.Grant{Lease: g.Lease}, key("10.5.2.0-24"), g.Attrs, long)
		if err != nil {
			t.Fatal(err)
		}
		if moved.TTL != long {
			t.Errorf("granted %s, asked for %s", moved.TTL, long)
		}
		s.outlast(t, g.TTL+short, func() {})
		s.awaitLeases(t, moved.Lease)
	}},
	{"move refuses a taken key and a record that has changed", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		taken := s.create(t, s.other, "10.5.2.0-24", "192.168.64.2", long)
		_, err := s.own.Move(context.Background(), g, taken.Key, g.Attrs, long)
		s.wantConflict(t, err, taken.Key)
		s.awaitLeases(t, g.Lease, taken.Lease)
		s.Put(t, name(g.Key), value("192.168.64.9"), 0)
		_, err = s.own.Move(context.Background(), g, key("10.5.3.0-24"), g.Attrs, long)
		s.wantConflict(t, err, g.Key)
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.9")})
	}},
	{"move refuses a record that is gone", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Delete(t, name(g.Key))
		_, err := s.own.Move(context.Background(), g, key("10.5.2.0-24"), g.Attrs, long)
		wantLost(t, err)
		s.awaitLeases(t)
	}},
	{"a second move to the same key conflicts with the first", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		moved, err := s.own.Move(context.Background(), g, key("10.5.2.0-24"), g.Attrs, long)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.own.Move(context.Background(), g, moved.Key, g.Attrs, long)
		s.wantConflict(t, err, moved.Key)
		s.awaitLeases(t, moved.Lease)
	}},
}
