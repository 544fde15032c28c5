package server

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

var (
	asked  = lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")}
	target = lease.Key{V4: netip.MustParsePrefix("10.5.2.0/24")}
)

func snapshot(revision int64, leases ...*lease.Lease) *lease.Snapshot {
	return &lease.Snapshot{Revision: revision, Leases: leases}
}

func record(key lease.Key, revision, id int64) *lease.Lease {
	return &lease.Lease{Key: key, ModRevision: revision, ID: id}
}

// TestNamed looks up a record of revision 5 and handle 7 in various snapshots.
func TestNamed(t *testing.T) {
	bad := snapshot(9)
	bad.Quarantined = []lease.Quarantined{{Key: asked}}
	other := record(target, 8, 8)
	changed := &lease.ConflictError{Key: asked}
	for name, c := range map[string]struct {
		op   string
		snap *lease.Snapshot
		err  error
		at   int64 // the revision of the conflict
	}{
		"the record":               {"", snapshot(9, record(asked, 5, 7), other), nil, 0},
		"another one":              {"", snapshot(9, record(asked, 6, 7)), changed, 6},
		"another one, renewed":     {api.Renew, snapshot(9, record(asked, 6, 7)), nil, 0},
		"another handle, renewed":  {api.Renew, snapshot(9, record(asked, 6, 8)), lease.ErrLost, 0},
		"none":                     {api.Update, snapshot(9, other), lease.ErrLost, 0},
		"none, and the target":     {api.Move, snapshot(9, other), &lease.ConflictError{Key: target}, 8},
		"a bad value":              {api.Update, bad, changed, 6},
		"a bad value, and renewed": {api.Renew, bad, lease.ErrLost, 0},
	} {
		l, err := named(c.snap, api.Terms{Op: c.op, Key: asked, To: target, Mod: 5, ID: 7})
		want := new(lease.ConflictError)
		if errors.As(c.err, &want) {
			got := new(lease.ConflictError)
			if !errors.As(err, &got) || got.Key != want.Key || got.Revision != c.at {
				t.Errorf("%s: %+v, %v; want a conflict over %s at %d", name, l, err, want.Key, c.at)
			}
			continue
		}
		if !errors.Is(err, c.err) || err == nil && l.Key != asked {
			t.Errorf("%s: %+v, %v; want %v", name, l, err, c.err)
		}
	}
}

// laggingStore shows an old snapshot until it catches up.
type laggingStore struct {
	Store
	views  [2]lease.View
	caught atomic.Int64
}

func (s *laggingStore) View() lease.View         { return s.views[min(s.caught.Load(), 1)] }
func (s *laggingStore) Changed() <-chan struct{} { return nil }
func (s *laggingStore) Close()                   {}
func (s *laggingStore) CatchUp(context.Context) error {
	s.caught.Add(1)
	return nil
}

// TestPresent checks that a refusal names the record that the datastore holds now,
// and that a change of the record in the snapshot asks the datastore nothing.
func TestPresent(t *testing.T) {
	for name, c := range map[string]struct {
		mod      int64
		conflict int64 // its revision; 0: none
	}{
		"the record that the server knows":    {6, 0},
		"a record that has long been changed": {5, 7},
	} {
		store := &laggingStore{}
		for i, snap := range []*lease.Snapshot{snapshot(6, record(asked, 6, 7)), snapshot(7, record(asked, 7, 7))} {
			store.views[i] = lease.View{Synced: true, Snapshot: snap}
		}
		f := newFeed(t.Context(), store)
		t.Cleanup(f.close)
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/_/leases/"+asked.String(), nil)
		r.SetPathValue("key", asked.String())
		terms := api.Terms{Op: api.Update, Key: asked, Mod: c.mod, ID: 7}
		l, err := new(Server).present(call{Request: r, feed: f, terms: terms})
		got := new(lease.ConflictError)
		switch {
		case c.conflict == 0 && (err != nil || l.ModRevision != c.mod || store.caught.Load() != 0):
			t.Errorf("%s: %+v, %v after %d reads", name, l, err, store.caught.Load())
		case c.conflict != 0 && (!errors.As(err, &got) || got.Revision != c.conflict):
			t.Errorf("%s: %+v, %v, want a conflict at %d", name, l, err, c.conflict)
		}
	}
}
