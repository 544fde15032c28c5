package store

import (
	"context"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/leasetest"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestStoreConforms runs the conformance cases of all lease stores.
func TestStoreConforms(t *testing.T) {
	leasetest.Run(t, func(*testing.T) leasetest.Harness {
		w := world.New(1)
		return &storeHarness{world: w, store: New(w, Options{})}
	})
}

type storeHarness struct {
	world *world.World
	store *Store
}

func (h *storeHarness) Open(t *testing.T) lease.Store {
	c := h.store.Client(t.Name(), ClientOptions{})
	t.Cleanup(c.Close)
	return c
}

func (h *storeHarness) OpenUnsure(t *testing.T) (lease.Store, func()) {
	st := &unsureStore{Client: h.Open(t).(*Client), world: h.world}
	return st, func() { h.world.Run(slowCleanup) }
}

// slowCleanup is the longest time that the cleanup of an unsureStore takes.
const slowCleanup = time.Minute

// unsureStore is a client whose Create gets no answer, and then cleans up late.
type unsureStore struct {
	*Client
	world *world.World
}

func (u *unsureStore) Create(
	_ context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	var answer *node.Requested
	u.Next(FateLoseAnswer)
	u.Do(node.Request{Verb: node.Create, Key: key, Attrs: attrs, TTL: ttl}, func(done node.Requested) {
		answer = &done
	})
	u.world.RunUntil(func() bool { return len(u.store.records) > 0 }, time.Minute)
	u.store.SetFaults(Faults{Slow: 1, SlowBy: slowCleanup})
	u.world.RunUntil(func() bool { return answer != nil }, time.Minute)
	u.store.SetFaults(Faults{})
	return answer.Grant, answer.Err
}

func (h *storeHarness) Now() time.Time { return h.world.Now() }

// Await also checks the condition at intervals without an event, for conditions
// that act while they wait.
func (h *storeHarness) Await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for range 600 {
		if h.world.RunUntil(cond, 100*time.Millisecond) {
			return
		}
	}
	t.Fatalf("%s: not within a minute", what)
}

func (h *storeHarness) Put(t *testing.T, name, value string, ttl time.Duration) {
	t.Helper()
	must(t, h.store.Put(name, value, ttl))
}

func (h *storeHarness) Get(_ *testing.T, name string) (leasetest.Record, bool) {
	r := h.store.records[h.store.full(name)]
	if r == nil {
		return leasetest.Record{}, false
	}
	return leasetest.Record{Value: string(r.value), TTL: r.ttl != nil}, true
}

func (h *storeHarness) Delete(t *testing.T, name string) {
	t.Helper()
	must(t, h.store.Delete(name))
}

func (h *storeHarness) Compact(*testing.T) { h.store.Compact() }
