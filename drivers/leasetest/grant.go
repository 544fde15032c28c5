package leasetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

var createCases = []kase{
	{"create takes a free key", func(t *testing.T, s *suite) {
		before := s.Now()
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		after := s.Now()
		if g.Key != key("10.5.1.0-24") || !g.Attrs.Equal(attrs("192.168.64.1")) || g.Reserved() {
			t.Errorf("grant %+v is not as requested", g)
		}
		if g.CreateRevision == 0 || g.CreateRevision != g.ModRevision {
			t.Errorf("created at %d, changed at %d, want one revision", g.CreateRevision, g.ModRevision)
		}
		if g.TTL != long || g.Expires.Before(before.Add(long)) || g.Expires.After(after.Add(long)) {
			t.Errorf("granted %s until %s, asked for %s between %s and %s", g.TTL, g.Expires, long, before, after)
		}
		s.awaitLeases(t, g.Lease)
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.1"), TTL: true})
	}},
	{"create takes keys of all families", func(t *testing.T, s *suite) {
		var want []lease.Lease
		for i, k := range []string{"0.0.0.0-0&fd00:10:5:2::-64", "10.5.1.0-24", "10.5.1.0-24&fd00:10:5:1::-64"} {
			want = append(want, s.create(t, s.own, k, spread("192.168.64.N", i), long).Lease)
		}
		s.awaitLeases(t, want...)
	}},
	{"create refuses a taken key", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		for _, st := range []lease.Store{s.other, s.own} {
			_, err := st.Create(context.Background(), g.Key, attrs("192.168.64.2"), long)
			s.wantConflict(t, err, g.Key)
		}
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.1"), TTL: true})
		s.awaitLeases(t, g.Lease)
	}},
	{"create refuses a reserved key", func(t *testing.T, s *suite) {
		k := key("10.5.1.0-24")
		s.Put(t, name(k), value("192.168.64.1"), 0)
		_, err := s.own.Create(context.Background(), k, attrs("192.168.64.1"), long)
		s.wantConflict(t, err, k)
		s.wantRecord(t, k, Record{Value: value("192.168.64.1")})
	}},
	{"a cancelled call does nothing", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err1 := s.own.Create(ctx, key("10.5.2.0-24"), attrs("192.168.64.2"), long)
		_, err2 := s.own.Renew(ctx, g)
		_, err3 := s.own.Update(ctx, g, attrs("192.168.64.2"), long)
		err4 := s.own.Release(ctx, g)
		for i, err := range []error{err1, err2, err3, err4} {
			if err == nil || errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
				t.Errorf("call %d: %v, want an unknown outcome", i+1, err)
			}
		}
		s.awaitLeases(t, g.Lease)
	}},
}

var renewCases = []kase{
	{"a lease ends with its TTL", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
		s.awaitLeases(t, g.Lease)
		s.wantOutlives(t, g)
		s.awaitLeases(t)
		_, err := s.own.Renew(context.Background(), g)
		wantLost(t, err)
		_, err = s.own.Update(context.Background(), g, attrs("192.168.64.2"), short)
		wantLost(t, err)
		again := s.create(t, s.other, "10.5.1.0-24", "192.168.64.2", long)
		_, err = s.own.Update(context.Background(), g, attrs("192.168.64.1"), short)
		s.wantConflict(t, err, g.Key)
		s.awaitLeases(t, again.Lease)
	}},
	{"a renewed lease does not end", func(t *testing.T, s *suite) {
		for !s.renewsInTime(t) {
			t.Log("a lease ended because the machine let the test pause for its whole TTL; trying another one")
		}
	}},
	{"a renewal wakes no peer", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		renewed, err := s.own.Renew(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		if renewed.ModRevision != g.ModRevision || renewed.ID != g.ID {
			t.Errorf("renewal changed the record from %+v to %+v", g.Lease, renewed.Lease)
		}
		next := s.create(t, s.own, "10.5.2.0-24", "192.168.64.2", long)
		s.awaitLeases(t, g.Lease, next.Lease) // still at the revision of its creation
	}},
	{"a former run's lease is renewed", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		renewed, err := s.other.Renew(context.Background(), lease.Grant{Lease: *s.other.View().Snapshot.Leases[0]})
		if err != nil {
			t.Fatal(err)
		}
		if renewed.TTL != long || renewed.Expires.Before(g.Expires) || renewed.ModRevision != g.ModRevision {
			t.Errorf("grant %+v, was %+v", renewed, g)
		}
	}},
}

var releaseCases = []kase{
	{"release deletes the own record", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.awaitLeases(t, g.Lease)
		for range 2 { // a second time is no error
			if err := s.own.Release(context.Background(), g); err != nil {
				t.Fatal(err)
			}
		}
		s.awaitLeases(t)
		if _, exists := s.Get(t, name(g.Key)); exists {
			t.Error("the record still exists")
		}
	}},
	{"release deletes no other node's record", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Delete(t, name(g.Key))
		again := s.create(t, s.other, "10.5.1.0-24", "192.168.64.2", long)
		if err := s.own.Release(context.Background(), g); err != nil {
			t.Fatal(err)
		}
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.2"), TTL: true})
		s.awaitLeases(t, again.Lease)
	}},
	{"release deletes no record that has changed", func(t *testing.T, s *suite) {
		g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", long)
		s.Put(t, name(g.Key), value("192.168.64.1"), 0)
		if err := s.own.Release(context.Background(), g); err != nil {
			t.Fatal(err)
		}
		s.wantRecord(t, g.Key, Record{Value: value("192.168.64.1")})
	}},
}

// renewsInTime renews a new lease until it has outlived its TTL. It returns false if the test itself
// was held up for so long between two renewals that the lease had to end.
func (s *suite) renewsInTime(t *testing.T) bool {
	t.Helper()
	asked := time.Now()
	g := s.create(t, s.own, "10.5.1.0-24", "192.168.64.1", short)
	late := false
	s.outlast(t, g.TTL+short, func() {
		if late {
			return
		}
		before, last := g, asked
		asked = time.Now()
		renewed, err := s.own.Renew(context.Background(), g)
		late = errors.Is(err, lease.ErrLost) && time.Since(last) >= before.TTL
		if late {
			return
		}
		if err != nil {
			t.Fatalf("renew: %v", err)
		}
		g = renewed
		if g.TTL != before.TTL || g.Expires.Before(before.Expires) {
			t.Errorf("renewal of %s until %s gave %s until %s", before.TTL, before.Expires, g.TTL, g.Expires)
		}
	})
	if late {
		s.awaitGone(t, g.Key)
		return false
	}
	s.wantRecord(t, g.Key, Record{Value: value("192.168.64.1"), TTL: true})
	s.wantOutlives(t, g)
	return true
}
