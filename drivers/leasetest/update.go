package leasetest

import (
	"context"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

var updateCases = []kase{
	{"update changes the attributes", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		updated := s.update(t, g, "192.168.64.2")
		if updated.Key != g.Key || updated.CreateRevision != g.CreateRevision || updated.ModRevision <= g.ModRevision {
			t.Errorf("update of %+v gave %+v", g.Lease, updated.Lease)
		}
		if updated.ID != g.ID || updated.TTL != g.TTL {
			t.Errorf("an equal TTL was replaced: %d for %s, was %d for %s", updated.ID, updated.TTL, g.ID, g.TTL)
		}
		s.awaitLeases(t, updated.Lease)
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.2"), TTL: true})
		s.update(t, updated, "192.168.64.3")
	}},
	{"update promises no longer TTL than the handle has", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", 2*short)
		s.outlast(t, short, func() {})
		s.wantOutlives(t, s.updateFor(t, g, 2*short))
	}},
	{"update replaces a TTL of another length", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
		before := s.Now()
		updated := s.updateFor(t, g, long)
		if updated.TTL != long || updated.Expires.Before(before.Add(long)) || updated.ID == g.ID {
			t.Errorf("grant %+v, want one for %s", updated, long)
		}
		s.outlast(t, g.TTL+short, func() {})
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.9"), TTL: true})
		s.awaitLeases(t, updated.Lease)
	}},
	{"update shortens a TTL", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.wantOutlives(t, s.updateFor(t, g, short))
	}},
	{"update of a former run's lease", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
		s.awaitLeases(t, g.Lease)
		adopted := lease.Grant{Lease: *s.own.View().Snapshot.Leases[0]}
		updated := s.updateFor(t, adopted, long)
		if updated.TTL != long || updated.CreateRevision != g.CreateRevision {
			t.Errorf("grant %+v, want one for %s", updated, long)
		}
		s.outlast(t, g.TTL+short, func() {})
		s.awaitLeases(t, updated.Lease)
	}},
	{"update refuses a record that has changed", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		updated := s.update(t, g, "192.168.64.2")
		_, err := s.own.Update(context.Background(), g, attrs("192.168.64.3"), long)
		s.wantConflict(t, err, g.Key)
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.2"), TTL: true})
		s.awaitLeases(t, updated.Lease)
	}},
	{"update refuses a record that has changed, with another TTL", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		updated := s.update(t, g, "192.168.64.2")
		_, err := s.own.Update(context.Background(), g, attrs("192.168.64.3"), 2*long)
		s.wantConflict(t, err, g.Key)
		s.awaitLeases(t, updated.Lease)
	}},
	{"update refuses another node's record", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Delete(t, name(g.Key))
		again := s.create(t, s.other, "10.5.1.0-24", "192.168.64.2", long)
		_, err := s.own.Update(context.Background(), g, attrs("192.168.64.3"), long)
		s.wantConflict(t, err, g.Key)
		s.awaitLeases(t, again.Lease)
	}},
	{"update does not restore a deleted record", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Delete(t, name(g.Key))
		_, err := s.own.Update(context.Background(), g, attrs("192.168.64.2"), long)
		wantLost(t, err)
		_, err = s.own.Update(context.Background(), g, attrs("192.168.64.2"), 2*long)
		wantLost(t, err)
		s.awaitLeases(t)
	}},
}

var reservationCases = []kase{
	{"a record without a TTL is a reservation", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
		s.Put(t, name(g.Key), value("192.168.64.1"), 0)
		r := s.reservation(t)
		if r.Key != g.Key || r.CreateRevision != g.CreateRevision || r.ModRevision <= g.ModRevision {
			t.Errorf("reservation %+v of lease %+v", r, g.Lease)
		}
		s.outlast(t, g.TTL+short, func() {})
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.1")})
		s.awaitLeases(t, r)
	}},
	{"a reservation needs no renewal", func(t *testing.T, s *suite) {
		s.Put(t, "subnets/10.5.1.0-24", value("192.168.64.1"), 0)
		r := s.reservation(t)
		g, err := s.own.Renew(context.Background(), lease.Grant{Lease: r})
		if err != nil || g.TTL != 0 || !g.Expires.IsZero() || g.ModRevision != r.ModRevision {
			t.Errorf("renewal gave %+v, %v", g, err)
		}
		s.wantRecord(t, r.Key, Record{Value: value("192.168.64.1")})
	}},
	{"a reservation never gains a TTL", func(t *testing.T, s *suite) {
		s.Put(t, "subnets/10.5.1.0-24", value("192.168.64.1"), 0)
		r := s.reservation(t)
		g := s.updateFor(t, lease.Grant{Lease: r}, short)
		if !g.Reserved() || g.TTL != 0 || !g.Expires.IsZero() || g.CreateRevision != r.CreateRevision {
			t.Errorf("update gave %+v", g)
		}
		s.outlast(t, 2*short, func() {})
		s.wantRecord(t, r.Key, Record{Value: value("192.168.64.9")})
		s.awaitLeases(t, g.Lease)
	}},
}

// update changes the attributes and keeps the TTL.
func (s *suite) update(t *testing.T, g lease.Grant, ip string) lease.Grant {
	t.Helper()
	updated, err := s.own.Update(context.Background(), g, attrs(ip), g.TTL)
	if err != nil {
		t.Fatalf("update %s: %v", g.Key, err)
	}
	if !updated.Attrs.Equal(attrs(ip)) {
		t.Errorf("update gave %+v, asked for %s", updated.Attrs, ip)
	}
	return updated
}

// updateFor changes both.
func (s *suite) updateFor(t *testing.T, g lease.Grant, ttl time.Duration) lease.Grant {
	t.Helper()
	updated, err := s.own.Update(context.Background(), g, attrs("192.168.64.9"), ttl)
	if err != nil {
		t.Fatalf("update %s: %v", g.Key, err)
	}
	return updated
}

// reservation waits for the only lease of the store to be a reservation.
func (s *suite) reservation(t *testing.T) lease.Lease {
	t.Helper()
	return *s.awaitSnapshot(t, s.own, "a reservation", func(snap *lease.Snapshot) bool {
		return len(snap.Leases) == 1 && snap.Leases[0].Reserved()
	}).Leases[0]
}
