package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// contested is a datastore in which another program always changes a record first.
type contested struct {
	*inMemory
	updates int
}

// Update implements lease.Store.
func (c *contested) Update(context.Context, lease.Grant, lease.Attrs, time.Duration) (lease.Grant, error) {
	c.updates++
	c.touch(0)
	return lease.Grant{}, &lease.ConflictError{Key: keyAt(0), Revision: c.View().Snapshot.Revision}
}

// TestLostRaces holds the answer of the old API to a change that loses every race: 500 in plain text, after ten tries.
// Old clients know no 409 (interop 3.9: 400 for a bad body or key, otherwise 500).
func TestLostRaces(t *testing.T) {
	store := &contested{inMemory: newMemory(1)}
	s, err := New(t.Context(), Options{Open: func(string) (Store, error) { return store, nil }, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := httptest.NewRequest(http.MethodPost, "/v1/_/leases", strings.NewReader(`{"PublicIP":"172.16.0.0"}`))
	w := httptest.NewRecorder()
	s.routes().ServeHTTP(w, r)
	const want = "lost 10 races: subnet 10.8.0.0-24: record belongs to another node or has changed"
	if w.Code != http.StatusInternalServerError || w.Body.String() != want || store.updates != rounds {
		t.Errorf("%d %q after %d tries, want 500 %q after %d", w.Code, w.Body, store.updates, want, rounds)
	}
}
