package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

const testConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`

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

// TestStoreAppliedAndNeverTidied has a client that gives up and cannot clean
// up: it leaves a record without an owner.
func TestStoreAppliedAndNeverTidied(t *testing.T) {
	w, s, c := storeWorld(t, 1)
	c.Next(FateLoseAnswer)
	c.Do(createRequest(1, 10*time.Second), func(r node.Requested) {
		if !errors.Is(r.Err, errStoreNoAnswer) {
			t.Errorf("error %v", r.Err)
		}
	})
	w.Run(time.Second)
	c.Cut(true)
	w.Run(9 * time.Second)
	if len(s.Snapshot().Leases) != 1 {
		t.Error("the record is gone")
	}
	w.Run(2 * time.Second)
	if len(s.Snapshot().Leases) != 0 {
		t.Error("the record did not run out")
	}
}

// TestStoreLateUpdate has the server carry out a request after its client has
// given up.
func TestStoreLateUpdate(t *testing.T) {
	w, s, c := storeWorld(t, 1)
	g := mustCreate(t, c, 1, time.Hour)
	c.Next(FateLate)
	got := do(t, w, c, node.Request{Verb: node.Update, Grant: g, Attrs: testAttrs(9), TTL: time.Hour})
	if !errors.Is(got.Err, errStoreNoAnswer) || s.Snapshot().Leases[0].ModRevision != g.ModRevision {
		t.Fatalf("error %v, revision %d, was %d", got.Err, s.Snapshot().Leases[0].ModRevision, g.ModRevision)
	}
	w.Run(time.Second)
	if l := s.Snapshot().Leases[0]; l.Attrs.PublicIP != testAttrs(9).PublicIP {
		t.Errorf("never done: %+v", l)
	}
}

func TestStoreUnavailable(t *testing.T) {
	tests := []struct {
		name  string
		fail  func(*Store, *Client)
		heal  func(*Store, *Client)
		want  error // of a request
		view  error // why the view is not synced
		again error // of the next request, before healing
	}{
		{"stopped", func(s *Store, _ *Client) { s.Stop() }, func(s *Store, _ *Client) { s.Start() },
			errStoreRefused, errStoreRefused, errStoreRefused},
		{"no leader", func(s *Store, _ *Client) { s.LoseLeader(time.Minute) }, func(*Store, *Client) {},
			errStoreNoLeader, errStoreNoLeader, errStoreNoLeader},
		{"cut", func(_ *Store, c *Client) { c.Cut(true) }, func(_ *Store, c *Client) { c.Cut(false) },
			errStoreNoAnswer, errStoreUnreachable, errStoreNoAnswer},
		{"denied", func(_ *Store, c *Client) { c.Deny(true) }, func(_ *Store, c *Client) { c.Deny(false) },
			errStoreDenied, errStoreDenied, errStoreDenied},
		{"token", func(_ *Store, c *Client) { c.ExpireToken() }, func(*Store, *Client) {},
			errStoreToken, errStoreToken, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s, c := storeWorld(t, 2)
			mustCreate(t, c, 1, time.Hour)
			awaitSync(t, w, s, c)
			var seen []error
			c.OnChange(func() {
				if v := c.View(); !v.Synced {
					seen = append(seen, v.Err)
				}
			})
			tt.fail(s, c)
			if got := do(t, w, c, createRequest(2, time.Hour)); !errors.Is(got.Err, tt.want) {
				t.Errorf("first request: %v, want %v", got.Err, tt.want)
			}
			if got := do(t, w, c, createRequest(2, time.Hour)); !errors.Is(got.Err, tt.again) {
				t.Errorf("second request: %v, want %v", got.Err, tt.again)
			}
			w.Run(10 * time.Second)
			if !slices.Contains(seen, tt.view) {
				t.Errorf("the view was unsynced for %v, want %v among it", seen, tt.view)
			}
			if v := c.View(); v.Snapshot == nil || len(v.Snapshot.Leases) == 0 {
				t.Error("the view lost what it knew")
			}
			tt.heal(s, c)
			w.Run(time.Minute)
			awaitSync(t, w, s, c)
		})
	}
}

// TestStoreReachable cuts the client off by the world's network and not by a
// command of the store.
func TestStoreReachable(t *testing.T) {
	w := world.New(3)
	s := New(w, Options{})
	up := false
	c := s.Client("n1", ClientOptions{Reachable: func() bool { return up }})
	w.Run(20 * time.Second)
	if v := c.View(); v.Snapshot != nil || v.Synced || !errors.Is(v.Err, errStoreUnreachable) {
		t.Errorf("the view of an unreachable store is %+v, want it empty, unsynced and with the reason", v)
	}
	_, err := c.Create(context.Background(), testKey(1), testAttrs(1), time.Hour)
	if !errors.Is(err, errStoreUnreachable) {
		t.Errorf("create: %v", err)
	}
	up = true
	awaitSync(t, w, s, c)
}

func TestStoreTTL(t *testing.T) {
	w, s, c := storeWorld(t, 4)
	g := mustCreate(t, c, 1, 10*time.Second)
	if want := w.Now().Add(10 * time.Second); g.TTL != 10*time.Second || !g.Expires.Equal(want) {
		t.Errorf("granted %s until %s, want 10s until %s", g.TTL, g.Expires, want)
	}
	w.Run(9 * time.Second)
	if _, err := c.Renew(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	rev := s.Revision()
	w.Run(10*time.Second - 1)
	if len(s.Snapshot().Leases) != 1 {
		t.Fatal("gone before its time")
	}
	w.Run(1)
	if len(s.Snapshot().Leases) != 0 || s.Revision() != rev+1 {
		t.Fatalf("still there after its time, or more than one revision: %s", s.Dump())
	}
	if _, err := c.Renew(context.Background(), g); !errors.Is(err, lease.ErrLost) {
		t.Errorf("renew after the end: %v", err)
	}
}

func TestStoreShortTTLIsRaised(t *testing.T) {
	_, _, c := storeWorld(t, 4)
	if g := mustCreate(t, c, 1, time.Millisecond); g.TTL != leastTTL {
		t.Errorf("granted %s, want %s", g.TTL, leastTTL)
	}
	if g := mustCreate(t, c, 2, 2500*time.Millisecond); g.TTL != 3*time.Second {
		t.Errorf("granted %s, want 3s", g.TTL)
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

func TestStoreOperator(t *testing.T) {
	w, s, c := storeWorld(t, 6)
	g := mustCreate(t, c, 1, 10*time.Second)
	mustCreate(t, c, 2, 10*time.Second)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.Put("config", testConfig, 0))
	check(s.SetTTL("subnets/10.5.1.0-24", 0))
	check(s.Put("subnets/garbage", "{}", 0))
	check(s.Put("subnets/10.5.3.0-24", "not JSON", time.Hour))
	check(s.Put("subnets/10.5.4.7-24", `{"PublicIP":"192.168.64.9"}`, 0))
	rev := s.Snapshot().Revision
	check(s.Put("other", "not ours", 0))
	if s.Snapshot().Revision != rev || s.Revision() != rev+1 {
		t.Errorf("a foreign key moved the snapshot from %d to %d", rev, s.Snapshot().Revision)
	}
	w.Run(11 * time.Second)
	snap := c.View().Snapshot
	kept := len(snap.Leases) == 2 && snap.Leases[0].Key == testKey(1) && snap.Leases[0].Reserved()
	if !kept || snap.Leases[1].Key != testKey(4) {
		t.Fatalf("leases: %+v, want the two reservations", snap.Leases)
	}
	if snap.Leases[0].CreateRevision != g.CreateRevision || snap.Leases[0].ModRevision == g.ModRevision {
		t.Errorf("revisions of the reservation: %+v, was %+v", snap.Leases[0], g.Lease)
	}
	var bad []string
	for _, q := range snap.Quarantined {
		bad = append(bad, fmt.Sprintf("%s %v", q.Raw, q.Key.IsValid()))
	}
	const p = "/coreos.com/network/subnets/"
	if want := []string{p + "10.5.3.0-24 true", p + "garbage false"}; !slices.Equal(bad, want) {
		t.Errorf("quarantined %q, want %q", bad, want)
	}
	if string(snap.Config.Data) != testConfig || snap.Config.Revision == 0 {
		t.Errorf("config: %+v", snap.Config)
	}
	if err := s.Revoke("subnets/10.5.1.0-24"); err == nil {
		t.Error("a reservation was revoked")
	}
	check(s.Revoke("subnets/10.5.3.0-24"))
	check(s.Delete("subnets/garbage"))
	check(s.Wipe())
	if got := len(s.Snapshot().Leases) + len(s.Snapshot().Quarantined); got != 0 || s.Snapshot().Config.Revision == 0 {
		t.Errorf("after the wipe:\n%s", s.Dump())
	}
	s.Stop()
	if err := s.Put("config", "{}", 0); !errors.Is(err, errStoreRefused) {
		t.Errorf("put to a stopped server: %v", err)
	}
}

// TestStoreLastGood puts a value that does not decode: readers that had seen
// the good value before keep it.
func TestStoreLastGood(t *testing.T) {
	w, s, c := storeWorld(t, 6)
	mustCreate(t, c, 1, time.Hour)
	awaitSync(t, w, s, c)
	must(t, s.Put("subnets/10.5.1.0-24", "garbage", 0))
	late := s.Client("n2", ClientOptions{})
	w.Run(time.Second)
	must(t, s.Put("subnets/10.5.1.0-24", "more garbage", 0))
	w.Run(time.Second)
	if snap := c.View().Snapshot; len(snap.Leases) != 1 || len(snap.Quarantined) != 1 {
		t.Errorf("the earlier reader: %+v", snap)
	}
	snap := late.View().Snapshot
	if len(snap.Leases) != 0 || len(snap.Quarantined) != 1 || snap.Quarantined[0].Key != testKey(1) {
		t.Errorf("the later reader: %+v", snap)
	}
	if err := s.Delete("subnets/10.5.1.0-24"); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	if snap := c.View().Snapshot; len(snap.Leases)+len(snap.Quarantined) != 0 {
		t.Errorf("after its deletion: %+v", snap)
	}
}

func TestStoreLoseData(t *testing.T) {
	w, s, c := storeWorld(t, 6)
	for i := range 5 {
		mustCreate(t, c, i, 10*time.Second)
	}
	awaitSync(t, w, s, c)
	s.LoseData()
	awaitSync(t, w, s, c)
	if snap := c.View().Snapshot; snap.Revision != 1 || len(snap.Leases) != 0 {
		t.Errorf("after the loss: %+v", snap)
	}
	mustCreate(t, c, 1, time.Hour)
	w.Run(time.Minute)
	awaitSync(t, w, s, c)
	if len(c.View().Snapshot.Leases) != 1 {
		t.Error("a TTL of the former data ended a lease of the new")
	}
}

// TestStoreChancesAreDeterministic runs random requests under all faults.
func TestStoreChancesAreDeterministic(t *testing.T) {
	run := func(seed uint64) (uint64, string) {
		w := world.New(seed)
		s := New(w, Options{})
		s.SetFaults(Faults{LoseRequest: 0.1, LoseAnswer: 0.1, Slow: 0.3, SlowBy: 8 * time.Second, StaleList: 0.2,
			WatchDelay: time.Second, WatchLose: 0.1, WatchDuplicate: 0.1, WatchReorder: 0.1, WatchBreak: 0.1})
		for i := range 8 {
			c := s.Client(fmt.Sprintf("n%d", i), ClientOptions{})
			var act func()
			rng := w.Rand("test/" + c.name)
			act = func() {
				w.After(world.UpTo(rng, 2*time.Second), c.name+": act", func() {
					c.Do(createRequest(1+rng.IntN(8), 3*time.Second), func(node.Requested) { act() })
				})
			}
			act()
		}
		w.After(20*time.Second, "leader", func() { s.LoseLeader(2 * time.Second) })
		w.After(30*time.Second, "compact", s.Compact)
		w.Run(time.Minute)
		return w.TraceHash(), s.Dump()
	}
	h1, d1 := run(1)
	h2, d2 := run(1)
	if h1 != h2 || d1 != d2 {
		t.Errorf("one seed, two runs: %x %x\n%s\n%s", h1, h2, d1, d2)
	}
	if h3, _ := run(2); h3 == h1 {
		t.Error("another seed, the same run")
	}
}

// BenchmarkStoreJoin has many nodes take a lease each, all watching.
func BenchmarkStoreJoin(b *testing.B) {
	const nodes = 1000
	for b.Loop() {
		w := world.New(1)
		s := New(w, Options{})
		for i := range nodes {
			key := lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)}
			s.Client(fmt.Sprintf("n%d", i), ClientOptions{}).Do(
				node.Request{Verb: node.Create, Key: key, Attrs: testAttrs(1), TTL: time.Hour}, func(node.Requested) {})
		}
		w.Run(time.Minute)
		if len(s.Snapshot().Leases) != nodes {
			b.Fatal("not all have a lease")
		}
	}
}
