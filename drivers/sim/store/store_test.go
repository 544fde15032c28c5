package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

func testKey(i int) lease.Key {
	return lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(i), 0}), 24)}
}

func testAttrs(i int) lease.Attrs {
	return lease.Attrs{PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, byte(i)}), BackendType: "host-gw"}
}

func createRequest(i int, ttl time.Duration) node.Request {
	return node.Request{Verb: node.Create, Key: testKey(i), Attrs: testAttrs(i), TTL: ttl}
}

// storeWorld returns a world with a store and one client that is in sync with
// it.
func storeWorld(t *testing.T, seed uint64) (*world.World, *Store, *Client) {
	t.Helper()
	w := world.New(seed)
	s := New(w, Options{})
	c := s.Client("n1", ClientOptions{})
	awaitSync(t, w, s, c)
	return w, s, c
}

// awaitSync lets time pass until the client knows the whole store.
func awaitSync(t *testing.T, w *world.World, s *Store, c *Client) {
	t.Helper()
	inSync := func() bool { return c.View().Synced && c.View().Snapshot == s.Snapshot() }
	if !w.RunUntil(inSync, time.Minute) {
		t.Fatalf("client %s is not in sync after a minute: %+v", c.name, c.View())
	}
}

// do sends a request and waits for its end.
func do(t *testing.T, w *world.World, c *Client, req node.Request) node.Requested {
	t.Helper()
	var got *node.Requested
	c.Do(req, func(r node.Requested) { got = &r })
	if !w.RunUntil(func() bool { return got != nil }, time.Minute) {
		t.Fatalf("%s: no end after a minute", req.Verb)
	}
	return *got
}

func mustCreate(t *testing.T, c *Client, i int, ttl time.Duration) lease.Grant {
	t.Helper()
	g, err := c.Create(context.Background(), testKey(i), testAttrs(i), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestFates(t *testing.T) {
	tests := []struct {
		fate    Fate
		err     error
		applied bool // by then
		stands  bool // a minute later
	}{
		{FateDone, nil, true, true},
		{FateLoseRequest, errStoreNoAnswer, false, false},
		{FateLoseAnswer, errStoreNoAnswer, true, false}, // the client cleans up
		{FateLate, errStoreNoAnswer, false, false},      // too late, the TTL is gone
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.fate), func(t *testing.T) {
			w, s, c := storeWorld(t, 1)
			c.Next(tt.fate)
			began := w.Now()
			got := do(t, w, c, createRequest(1, time.Hour))
			if !errors.Is(got.Err, tt.err) {
				t.Errorf("error %v, want %v", got.Err, tt.err)
			}
			if want := began.Add(time.Hour); got.Err == nil && !got.Grant.Expires.Equal(want) {
				t.Errorf("expires %v, want %v", got.Grant.Expires, want)
			}
			if n := len(s.Snapshot().Leases); (n == 1) != tt.applied {
				t.Errorf("%d leases in the store, applied should be %v", n, tt.applied)
			}
			w.Run(time.Minute)
			if n := len(s.Snapshot().Leases); (n == 1) != tt.stands {
				t.Errorf("%d leases in the store a minute later, stands should be %v", n, tt.stands)
			}
		})
	}
}

// TestStoreNewLeaderExtends loses the leader: no TTL expires without one, and
// the next one restarts every TTL.
func TestStoreNewLeaderExtends(t *testing.T) {
	outages := map[string]func(*world.World, *Store){
		"leader": func(_ *world.World, s *Store) { s.LoseLeader(time.Minute) },
		"stop":   func(w *world.World, s *Store) { s.Stop(); w.After(time.Minute, "start", s.Start) },
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			w, s, c := storeWorld(t, 5)
			mustCreate(t, c, 1, 10*time.Second)
			outage(w, s)
			w.Run(time.Minute + 10*time.Second - 1)
			if len(s.Snapshot().Leases) != 1 {
				t.Fatal("ran out without a leader, or too early after")
			}
			w.Run(1)
			if len(s.Snapshot().Leases) != 0 {
				t.Fatal("never ran out")
			}
		})
	}
}
