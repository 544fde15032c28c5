package leasetest

import (
	"context"
	"errors"
	"testing"

	"github.com/flanneld/flannel/core/lease"
)

// unsureCases are about a Create of unknown outcome. The store deletes its record,
// because no node holds it; but if the node has seen the record and taken it over
// in the meantime, the record stays.
var unsureCases = []kase{
	{"a record of unknown outcome is deleted", func(t *testing.T, s *suite) {
		st, tidy := s.OpenUnsure(t)
		l := s.createUnsure(t, st)
		tidy()
		s.awaitGone(t, l.Key)
		_, err := st.Renew(context.Background(), lease.Grant{Lease: l})
		wantLost(t, err)
	}},
	{"a record of unknown outcome stays once it is renewed", func(t *testing.T, s *suite) {
		s.takeOver(t, func(st lease.Store, l lease.Lease) (lease.Grant, error) {
			return st.Renew(context.Background(), lease.Grant{Lease: l})
		})
	}},
	{"a record of unknown outcome stays once it is updated", func(t *testing.T, s *suite) {
		s.takeOver(t, func(st lease.Store, l lease.Lease) (lease.Grant, error) {
			return st.Update(context.Background(), lease.Grant{Lease: l, TTL: long}, attrs("192.168.64.2"), long)
		})
	}},
	{"a record of unknown outcome stays once it is moved", func(t *testing.T, s *suite) {
		s.takeOver(t, func(st lease.Store, l lease.Lease) (lease.Grant, error) {
			return st.Move(context.Background(), lease.Grant{Lease: l, TTL: long}, key("10.5.2.0-24"), l.Attrs, long)
		})
	}},
}

// createUnsure creates a record without an answer, and returns it as a snapshot
// shows it.
func (s *suite) createUnsure(t *testing.T, st lease.Store) lease.Lease {
	t.Helper()
	_, err := st.Create(context.Background(), key("10.5.1.0-24"), attrs("192.168.64.1"), long)
	if err == nil || errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
		t.Fatalf("create: %v, want an unknown outcome", err)
	}
	shows := func(snap *lease.Snapshot) bool { return len(snap.Leases) == 1 }
	return *s.awaitSnapshot(t, st, "the record", shows).Leases[0]
}

// takeOver takes a record of unknown outcome over before the cleanup, which must
// then spare it, and checks that the grant can be renewed.
func (s *suite) takeOver(t *testing.T, take func(lease.Store, lease.Lease) (lease.Grant, error)) {
	t.Helper()
	st, tidy := s.OpenUnsure(t)
	before := s.Now()
	g, err := take(st, s.createUnsure(t, st))
	if err != nil {
		t.Fatal(err)
	}
	if g.TTL != long || g.Expires.Before(before.Add(long)) {
		t.Errorf("granted %s until %s, asked for %s from %s", g.TTL, g.Expires, long, before)
	}
	tidy()
	s.wantRecord(t, g.Key, Record{Value: string(lease.EncodeAttrs(g.Attrs)), TTL: true})
	again, err := st.Renew(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	if again.ModRevision != g.ModRevision || again.ID != g.ID {
		t.Errorf("renewal changed the record from %+v to %+v", g.Lease, again.Lease)
	}
	s.awaitLeases(t, g.Lease)
}
