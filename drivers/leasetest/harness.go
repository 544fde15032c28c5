package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/lease"
)

// Harness is a datastore without records, for one case. Names are below its
// prefix: "config", "subnets/10.5.1.0-24". Its methods fail the test on errors.
type Harness interface {
	// Open returns a store of its own, closed at the end of the test.
	Open(t *testing.T) lease.Store
	// OpenUnsure returns a store whose first Create is carried out but gets no
	// answer. The requests that clean up after it reach the datastore during tidy.
	OpenUnsure(t *testing.T) (st lease.Store, tidy func())
	// Now is the clock that the stores measure a grant's expiry with.
	Now() time.Time
	// Await lets time pass until cond holds, and fails the test if it never does.
	Await(t *testing.T, what string, cond func() bool)

	// Put writes a value as an operator does, over another node's too. With a TTL
	// of 0 it never expires.
	Put(t *testing.T, name, value string, ttl time.Duration)
	// Get reads a record as an operator does.
	Get(t *testing.T, name string) (Record, bool)
	// Delete removes a name, if it exists.
	Delete(t *testing.T, name string)
	// Compact makes the datastore forget its history.
	Compact(t *testing.T)
}

// Record is the part of a record that an operator sees.
type Record struct {
	Value string
	TTL   bool // it has one
}

// kase is one case.
type kase struct {
	name string
	run  func(t *testing.T, s *suite)
}

// Run runs all cases, each as a subtest on a harness of its own. Open may
// declare the subtest parallel.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, k := range slices.Concat(viewCases, quarantineCases, createCases, unsureCases, renewCases, updateCases,
		moveCases, reservationCases, releaseCases) {
		t.Run(k.name, func(t *testing.T) {
			h := open(t)
			k.run(t, &suite{Harness: h, own: h.Open(t), other: h.Open(t)})
		})
	}
}

// suite serves one case: the stores of two nodes, and an operator.
type suite struct {
	Harness
	own, other lease.Store
}

// The TTLs of the cases: one that ends within the test, one that does not.
// Datastores count in seconds and have a shortest TTL of about two.
const (
	short = 2 * time.Second
	long  = time.Hour
)

// key parses a subnet key.
func key(s string) lease.Key {
	k, err := lease.ParseKey(s)
	if err != nil {
		panic(err)
	}
	return k
}

// attrs are those of a vxlan node.
func attrs(ip string) lease.Attrs {
	return lease.Attrs{
		PublicIP: netip.MustParseAddr(ip), BackendType: "vxlan",
		BackendData: json.RawMessage(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`),
	}
}

// value returns attrs in the form of a datastore.
func value(ip string) string { return string(lease.EncodeAttrs(attrs(ip))) }

func name(k lease.Key) string { return "subnets/" + k.String() }

// create takes a key for one of the stores.
func (s *suite) create(t *testing.T, st lease.Store, k, ip string, ttl time.Duration) lease.Grant {
	t.Helper()
	g, err := st.Create(context.Background(), key(k), attrs(ip), ttl)
	if err != nil {
		t.Fatalf("create %s: %v", k, err)
	}
	return g
}

// awaitLeases waits until both stores show exactly these leases.
func (s *suite) awaitLeases(t *testing.T, want ...lease.Lease) {
	t.Helper()
	var all []*lease.Lease
	for i := range want {
		all = append(all, &want[i])
	}
	for _, st := range []lease.Store{s.own, s.other} {
		var diff string
		s.await(t, func() bool {
			v := st.View()
			if !v.Synced || v.Snapshot == nil {
				return false
			}
			diff = cmp.Diff(all, v.Snapshot.Leases, sameValues, cmpopts.EquateEmpty())
			return diff == ""
		}, "the leases", &diff)
	}
}

// await calls Await, and reports what and detail when it fails.
func (s *suite) await(t *testing.T, cond func() bool, what string, detail *string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() && *detail != "" {
			t.Logf("%s, -want +got:\n%s", what, *detail)
		}
	})
	s.Await(t, what, cond)
	*detail = ""
}

// awaitSnapshot waits until a store is synced and its snapshot satisfies cond.
func (s *suite) awaitSnapshot(
	t *testing.T, st lease.Store, what string, pleases func(*lease.Snapshot) bool,
) *lease.Snapshot {
	t.Helper()
	s.Await(t, what, func() bool {
		v := st.View()
		return v.Synced && v.Snapshot != nil && pleases(v.Snapshot)
	})
	return st.View().Snapshot
}

// awaitGone waits until a record no longer exists.
func (s *suite) awaitGone(t *testing.T, k lease.Key) {
	t.Helper()
	s.Await(t, "end of "+k.String(), func() bool {
		_, exists := s.Get(t, name(k))
		return !exists
	})
}

// outlast waits, by the datastore's own clock, until a new record with the TTL d
// is gone. It calls meanwhile at each look.
func (s *suite) outlast(t *testing.T, d time.Duration, meanwhile func()) {
	t.Helper()
	const witness = "witness"
	s.Put(t, witness, "witness", d)
	s.Await(t, "end of the witness", func() bool {
		meanwhile()
		_, exists := s.Get(t, witness)
		return !exists
	})
}

// wantRecord checks the record that an operator sees.
func (s *suite) wantRecord(t *testing.T, k lease.Key, want Record) {
	t.Helper()
	got, ok := s.Get(t, name(k))
	if !ok {
		t.Fatalf("no record %s, want %+v", k, want)
	}
	if got != want {
		t.Errorf("record %s is %+v, want %+v", k, got, want)
	}
}

// wantConflict checks for a conflict whose revision a snapshot can reach.
func (s *suite) wantConflict(t *testing.T, err error, k lease.Key) {
	t.Helper()
	var conflict *lease.ConflictError
	if !errors.Is(err, lease.ErrConflict) || !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict", err)
	}
	if conflict.Key != k {
		t.Errorf("conflict over %s, want %s", conflict.Key, k)
	}
	snap := s.awaitSnapshot(t, s.own, "a snapshot that explains the conflict", func(snap *lease.Snapshot) bool {
		return snap.Revision >= conflict.Revision
	})
	has := func(l *lease.Lease) bool { return l.Key == k }
	if !slices.ContainsFunc(snap.Leases, has) &&
		!slices.ContainsFunc(snap.Quarantined, func(q lease.Quarantined) bool { return q.Key == k }) {
		t.Errorf("snapshot %d does not show who has %s, though the conflict was at %d", snap.Revision, k, conflict.Revision)
	}
}

func wantLost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrConflict) {
		t.Errorf("error %v, want a lost lease", err)
	}
}

// wantOutlives checks that a record does not end before its owner expects it to.
func (s *suite) wantOutlives(t *testing.T, g lease.Grant) {
	t.Helper()
	s.awaitGone(t, g.Key)
	if now := s.Now(); now.Before(g.Expires) {
		t.Errorf("%s ended at %s, before it expires at %s", g.Key, now, g.Expires)
	}
}

// sameValues lets cmp compare addresses and prefixes.
var sameValues = cmp.Options{
	cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
}
