package linearizable

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

const etcdPrefix = "/linearizable"

// TestEtcdStore judges clients of a real etcd.
func TestEtcdStore(t *testing.T) {
	open := func(t *testing.T, endpoints []string, _ int) closer { return openEtcd(t, endpoints) }
	judgeEtcd(t, &History{}, open)
}

// TestServers judges clients of two servers over a real etcd.
func TestServers(t *testing.T) {
	var addrs []string
	judgeEtcd(t, &History{ByRecord: true}, func(t *testing.T, endpoints []string, i int) closer {
		for len(addrs) < 2 {
			addrs = append(addrs, startServer(t, endpoints))
		}
		s, err := remote.Open(context.Background(), remote.Options{Servers: []string{addrs[i%2], addrs[1-i%2]}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// closer is a store with an end.
type closer interface {
	lease.Store
	Close()
}

func openEtcd(t *testing.T, endpoints []string) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(context.Background(), etcd.Options{Endpoints: endpoints, Prefix: etcdPrefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startServer runs a server of the etcd until the end of the test.
func startServer(t *testing.T, endpoints []string) (addr string) {
	t.Helper()
	s, err := server.New(context.Background(), server.Options{
		Open: func(string) (server.Store, error) { return openEtcd(t, endpoints), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l, nil) }() // clients notice if it fails
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// judgeEtcd lets ten clients ask at once, waits until all leases have run out, and
// lets them ask again, with what they remember.
func judgeEtcd(t *testing.T, h *History, open func(t *testing.T, endpoints []string, i int) closer) {
	t.Helper()
	db, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	h.Now = func() time.Duration { return time.Since(began) }
	var callers []*caller
	for i := range 10 {
		s := open(t, db.Endpoints(), i)
		t.Cleanup(s.Close)
		p := newParty(i, rand.New(rand.NewPCG(uint64(i), 1)))
		p.ttl = 2 * time.Second // the least that etcd grants
		callers = append(callers, &caller{party: p, store: s})
	}
	for range 2 {
		var asking sync.WaitGroup
		for _, c := range callers {
			asking.Go(func() { c.ask(h, 40) })
		}
		asking.Wait()
		NewWithT(t).Eventually(func() int { return lookAll(t, h, db.Client()) }, time.Minute, 100*time.Millisecond).
			Should(BeZero(), "leases that are not renewed")
	}
	if got, why := h.Check(patience); got != porcupine.Ok {
		t.Errorf("%s\n%s", got, why)
	}
	t.Logf("%d requests, %d of unknown outcome", h.Len(), h.Unknown())
}

// caller is a client that waits for each answer, sometimes only briefly.
type caller struct {
	*party
	store lease.Store
}

func (c *caller) ask(h *History, times int) {
	for range times {
		req := c.draw(c.store.View())
		patience := 10 * time.Second
		if c.rng.IntN(20) == 0 {
			patience = time.Duration(c.rng.Int64N(int64(2 * time.Millisecond)))
		}
		done := h.Ask(c.id, req)
		g, err := c.one(req, patience)
		done(g, err)
		c.learn(req, g, err)
	}
}

func (c *caller) one(req node.Request, patience time.Duration) (lease.Grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch req.Verb {
	case node.Create:
		return c.store.Create(ctx, req.Key, req.Attrs, req.TTL)
	case node.Renew:
		return c.store.Renew(ctx, req.Grant)
	case node.Update:
		return c.store.Update(ctx, req.Grant, req.Attrs, req.TTL)
	case node.Move:
		return c.store.Move(ctx, req.Grant, req.Key, req.Attrs, req.TTL)
	default:
		return lease.Grant{}, c.store.Release(ctx, req.Grant)
	}
}

// lookAll reads all records, and returns their number.
func lookAll(t *testing.T, h *History, c *clientv3.Client) (there int) {
	for i := range keys {
		key := keyOf(i)
		done := h.Call(10, Input{Key: key})
		resp, err := c.Get(t.Context(), etcdPrefix+"/subnets/"+key.String())
		if err != nil {
			t.Error(err)
			continue
		}
		g := lease.Grant{}
		for _, kv := range resp.Kvs {
			attrs, err := lease.DecodeAttrs(kv.Value)
			if err != nil {
				t.Error(err)
			}
			there++
			g.Lease = lease.Lease{Key: key, Attrs: attrs, CreateRevision: kv.CreateRevision,
				ModRevision: kv.ModRevision, ID: kv.Lease}
		}
		done(g, nil)
	}
	return there
}
