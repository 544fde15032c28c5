package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// leastTTL is etcd's minimum: one and a half election timeouts.
const leastTTL = 2 * time.Second

// storeTTL is a time to live and the keys that are deleted with it: a lease in
// etcd's words. All methods accept nil, which means no TTL.
type storeTTL struct {
	id     int64
	length time.Duration
	keys   []string // sorted
	expiry *world.Event
}

// wholeSeconds rounds up: etcd counts in seconds.
func wholeSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// grant makes a new TTL.
func (s *Store) grant(length time.Duration) *storeTTL {
	length = max(leastTTL, wholeSeconds(length))
	s.lastTTL++
	t := &storeTTL{id: s.lastTTL, length: length}
	s.ttls[t.id] = t
	s.refresh(t)
	return t
}

// refresh restarts the TTL.
func (s *Store) refresh(t *storeTTL) {
	t.expiry.Cancel()
	t.expiry = s.world.After(t.length, fmt.Sprintf("store: ttl %d ends", t.id), func() {
		s.expiring = true
		s.endTTL(t)
		s.expiring = false
	})
}

// endTTL deletes the TTL with all its keys, in one revision.
func (s *Store) endTTL(t *storeTTL) {
	t.expiry.Cancel()
	delete(s.ttls, t.id)
	s.remove(slices.Clone(t.keys)...)
}

// holdTTLs stops all TTLs from expiring, because only a leader may expire them.
func (s *Store) holdTTLs() {
	for _, t := range s.ttls { // in any order: cancelling leaves no trace
		t.expiry.Cancel()
	}
}

// resumeTTLs restarts all TTLs, as a new leader does: it does not know the
// promises of the former one.
func (s *Store) resumeTTLs() {
	ids := make([]int64, 0, len(s.ttls))
	for id := range s.ttls {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s.refresh(s.ttls[id])
	}
}

func (t *storeTTL) handle() int64 {
	if t == nil {
		return 0
	}
	return t.id
}

func (t *storeTTL) attach(key string) {
	if t == nil {
		return
	}
	if i, found := slices.BinarySearch(t.keys, key); !found {
		t.keys = slices.Insert(t.keys, i, key)
	}
}

func (t *storeTTL) detach(key string) {
	if t == nil {
		return
	}
	if i, found := slices.BinarySearch(t.keys, key); found {
		t.keys = slices.Delete(t.keys, i, i+1)
	}
}

// String returns the handle and the length, for the trace.
func (t *storeTTL) String() string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%d/%s", t.id, t.length)
}
