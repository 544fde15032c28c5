package servers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/leasetest"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

// TestConformance runs the cases that every lease store passes. Each store of a
// case uses another one of two servers first.
func TestConformance(t *testing.T) {
	started := startEtcd(t)
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		t.Parallel() // they wait for TTLs most of the time
		d := newPrefix(started)
		h := &leaseHarness{datastore: d}
		for range 2 {
			h.servers = append(h.servers, d.serve(t, server.Options{}, nil).addr)
		}
		return h
	})
}

// leaseHarness is one prefix of an etcd, and its two servers.
type leaseHarness struct {
	datastore
	servers []string
	opened  int
}

func (h *leaseHarness) Open(t *testing.T) lease.Store {
	h.opened++
	return client(t, remote.Options{Servers: []string{h.servers[h.opened%2]}})
}

// OpenUnsure opens a store behind a proxy, which loses the answer to the first
// Create and holds the cleanup's request until tidy. A request of the node for the
// record begins only once that request is on the wire, and reaches the server
// before it. The store sends no such request while the node's is under way.
func (h *leaseHarness) OpenUnsure(t *testing.T) (lease.Store, func()) {
	target := &url.URL{Scheme: "http", Host: h.servers[0]}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	pending := make(chan struct{}) // the cleanup's request is under way
	release := make(chan struct{}) // it may go on
	done := make(chan struct{})    // it was answered
	seen, finished := sync.OnceFunc(func() { close(pending) }), sync.OnceFunc(func() { close(done) })
	var created atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			if created.CompareAndSwap(false, true) {
				proxy.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler) // the answer gets lost
			}
		case http.MethodDelete:
			seen()
			<-release
			defer finished()
			r = r.WithContext(context.WithoutCancel(r.Context())) // on the wire it cannot be called back
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	st := client(t, remote.Options{Servers: []string{front.Listener.Addr().String()}, Timeout: 30 * time.Second})
	return patientStore{st, t, pending}, func() {
		close(release)
		<-done
	}
}

// patientStore changes a record only once the cleanup's request is under way.
type patientStore struct {
	lease.Store
	t       *testing.T
	pending <-chan struct{}
}

func (p patientStore) await() {
	p.t.Helper()
	NewWithT(p.t).Eventually(p.pending, patience).Should(BeClosed(), "the cleanup's request")
}

func (p patientStore) Renew(ctx context.Context, g lease.Grant) (lease.Grant, error) {
	p.await()
	return p.Store.Renew(ctx, g)
}

func (p patientStore) Update(
	ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	p.await()
	return p.Store.Update(ctx, g, attrs, ttl)
}

func (p patientStore) Move(
	ctx context.Context, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	p.await()
	return p.Store.Move(ctx, g, to, attrs, ttl)
}

func (h *leaseHarness) Now() time.Time { return time.Now() }

func (h *leaseHarness) Await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	NewWithT(t).Eventually(cond, patience, 10*time.Millisecond).Should(BeTrue(), what)
}

func (d datastore) key(name string) string { return d.prefix + "/" + name }

// Put writes a record as an operator does.
func (d datastore) Put(t *testing.T, name, value string, ttl time.Duration) {
	t.Helper()
	var opts []clientv3.OpOption
	if ttl > 0 {
		granted, err := d.etcd.Client().Grant(context.Background(), int64(ttl/time.Second))
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, clientv3.WithLease(granted.ID))
	}
	if _, err := d.etcd.Client().Put(context.Background(), d.key(name), value, opts...); err != nil {
		t.Fatal(err)
	}
}

// Get reads a record as an operator does.
func (d datastore) Get(t *testing.T, name string) (leasetest.Record, bool) {
	t.Helper()
	resp, err := d.etcd.Client().Get(context.Background(), d.key(name))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return leasetest.Record{}, false
	}
	return leasetest.Record{Value: string(resp.Kvs[0].Value), TTL: resp.Kvs[0].Lease != 0}, true
}

// Delete removes a record.
func (d datastore) Delete(t *testing.T, name string) {
	t.Helper()
	if _, err := d.etcd.Client().Delete(context.Background(), d.key(name)); err != nil {
		t.Fatal(err)
	}
}

// Compact makes etcd forget its history.
func (d datastore) Compact(t *testing.T) {
	t.Helper()
	now, err := d.etcd.Client().Get(context.Background(), d.key("config"))
	if err != nil {
		t.Fatal(err)
	}
	// Cases run in parallel: another one's compaction may be ahead.
	_, _ = d.etcd.Client().Compact(context.Background(), now.Header.Revision)
}
