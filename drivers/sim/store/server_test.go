package store

import (
	"errors"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// serverWorld returns a store with servers, and a client that follows one of them.
func serverWorld(t *testing.T, count int) (*world.World, *Store, []*Server, *Client) {
	t.Helper()
	w := world.New(8)
	s := New(w, Options{})
	var servers []*Server
	for i := range count {
		servers = append(servers, s.NewServer([]string{"server1", "server2"}[i]))
	}
	c := s.Client("n1", ClientOptions{Servers: servers})
	awaitSync(t, w, s, c)
	return w, s, servers, c
}

// TestDoubt creates a record without an answer. The client deletes it, unless the node takes it over: then it
// is on another handle, and stays.
func TestDoubt(t *testing.T) {
	for _, taken := range []bool{false, true} {
		w, s, _, c := serverWorld(t, 1)
		c.Next(FateLoseAnswer)
		if r := do(t, w, c, createRequest(1, time.Hour)); r.Err == nil || refusedRemotely(r.Err) {
			t.Fatalf("want no answer, got %+v", r)
		}
		l := c.record(testKey(1))
		if l == nil {
			t.Fatal("the record does not exist")
		}
		if taken {
			r := do(t, w, c, node.Request{Verb: node.Renew, Grant: lease.Grant{Lease: *l}})
			if r.Err != nil || r.Grant.ID == l.ID || r.Grant.TTL != time.Hour {
				t.Fatalf("taken over as %+v", r)
			}
		}
		w.Run(2 * doubtTime)
		if left := len(s.Snapshot().Leases) == 1; left != taken {
			t.Errorf("taken over: %t; left: %t", taken, left)
		}
	}
}

// TestServerBehind asks a server whose view is old about a record that is newer. It catches up before it
// refuses, so the request succeeds.
func TestServerBehind(t *testing.T) {
	w, s, servers, c := serverWorld(t, 2)
	r := do(t, w, c, createRequest(1, time.Hour))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	w.Run(time.Second)
	s.SetFaults(Faults{WatchDelay: time.Second})
	other := s.Client("n2", ClientOptions{Servers: servers[:1]})
	awaitSync(t, w, s, other)
	for i := range 10 {
		through := []*Client{c, other}[i%2]
		r = do(t, w, through, node.Request{Verb: node.Update, Grant: r.Grant, Attrs: testAttrs(i + 2), TTL: time.Hour})
		if r.Err != nil {
			t.Fatalf("update %d: %v", i, r.Err)
		}
	}
	late := node.Request{Verb: node.Update, Grant: r.Grant, Attrs: testAttrs(20), TTL: time.Hour}
	late.Grant.ModRevision--
	if r := do(t, w, c, late); !errors.Is(r.Err, lease.ErrConflict) {
		t.Errorf("an update of a former revision: %v", r.Err)
	}
}

// TestServerEndsUnderWay ends the server that has a request. A renewal goes to the other server; for a Create
// nothing is known.
func TestServerEndsUnderWay(t *testing.T) {
	for _, verb := range []node.Verb{node.Create, node.Renew} {
		w, s, servers, c := serverWorld(t, 2)
		req := createRequest(1, time.Hour)
		if verb == node.Renew {
			req = node.Request{Verb: verb, Grant: do(t, w, c, req).Grant}
			w.Run(time.Second)
		}
		uses := c.remote.uses()
		for _, srv := range servers {
			srv.SetFaults(ServerFaults{SlowBy: 2 * time.Second})
		}
		var got *node.Requested
		c.Do(req, func(r node.Requested) { got = &r })
		w.RunUntil(func() bool { return len(uses.calls) > 0 }, time.Second)
		uses.Stop()
		w.RunUntil(func() bool { return got != nil }, time.Minute)
		if got == nil || (got.Err == nil) != (verb == node.Renew) || got.Err != nil && refusedRemotely(got.Err) {
			t.Errorf("%s: %+v", verb, got)
		}
		awaitSync(t, w, s, c)
		if c.remote.uses() == uses {
			t.Error("the client follows a server that has ended")
		}
	}
}

// TestServerLosesTheStore parts a server from the datastore: its clients turn to the other one, and a
// restarted server serves again.
func TestServerLosesTheStore(t *testing.T) {
	w, s, servers, c := serverWorld(t, 2)
	uses := c.remote.uses()
	uses.SetFaults(ServerFaults{Parted: true})
	if !w.RunUntil(func() bool { return c.remote.uses() != uses }, time.Minute) {
		t.Fatal("the client follows a server without a datastore")
	}
	awaitSync(t, w, s, c)
	for _, srv := range servers {
		srv.Stop()
	}
	w.Run(time.Second)
	if c.View().Synced {
		t.Fatal("the client follows no server, and says otherwise")
	}
	mustCreate(t, s.Client("n2", ClientOptions{}), 3, time.Hour)
	for _, srv := range servers {
		srv.Start()
	}
	awaitSync(t, w, s, c)
}

// TestServerQuota asks for several leases of one node, one after another and at two servers at once. It gets one.
func TestServerQuota(t *testing.T) {
	w, s, servers, c := serverWorld(t, 2)
	other := s.Client("n2", ClientOptions{Servers: servers[1:]})
	awaitSync(t, w, s, other)
	ask := func(i int) node.Request {
		req := createRequest(i, time.Hour)
		req.Attrs = testAttrs(1)
		return req
	}
	answers := 0
	for i, through := range []*Client{c, other} {
		through.Do(ask(i+1), func(node.Requested) { answers++ })
	}
	if !w.RunUntil(func() bool { return answers == 2 }, time.Minute) {
		t.Fatal("no answers after a minute")
	}
	w.Run(time.Second)
	held := s.Snapshot().Leases
	if len(held) != 1 {
		t.Fatalf("%d leases of one node", len(held))
	}
	r := do(t, w, c, ask(3))
	if conflict := new(lease.ConflictError); !errors.As(r.Err, &conflict) || conflict.Key != held[0].Key {
		t.Errorf("a second lease: %v, want a conflict that names %s", r.Err, held[0].Key)
	}
}
