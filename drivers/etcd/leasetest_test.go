package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/leasetest"
)

// TestConformance runs the cases that every lease store passes, the simulated
// one too, on an etcd of its own.
func TestConformance(t *testing.T) {
	server, err := embedded.Start(context.Background(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		t.Parallel() // they wait for TTLs most of the time
		return &leaseHarness{server: server, options: options(server)}
	})
}

// leaseHarness is one prefix of the server.
type leaseHarness struct {
	server  *embedded.Server
	options Options
}

func (h *leaseHarness) Open(t *testing.T) lease.Store {
	s, err := Open(context.Background(), h.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (h *leaseHarness) OpenUnsure(t *testing.T) (lease.Store, func()) {
	revoke, revoked := make(chan struct{}), make(chan struct{})
	done := sync.OnceFunc(func() { close(revoked) })
	var created atomic.Bool
	o := h.options
	o.dial = append(o.dial, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
		conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		call := func() error { return invoke(ctx, method, req, reply, conn, opts...) }
		switch r := req.(type) {
		case *pb.TxnRequest:
			err := call()
			if err == nil && r.Success[0].GetRequestPut() != nil && created.CompareAndSwap(false, true) {
				err = status.Error(codes.Unavailable, "the answer got lost")
			}
			return err
		case *pb.LeaseRevokeRequest:
			<-revoke
			defer done()
		}
		return call()
	}))
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, func() {
		close(revoke)
		<-revoked
	}
}

func (h *leaseHarness) Now() time.Time { return time.Now() }

func (h *leaseHarness) Await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	NewWithT(t).Eventually(cond, time.Minute, 10*time.Millisecond).Should(BeTrue(), what)
}

func (h *leaseHarness) key(name string) string { return h.options.Prefix + "/" + name }

func (h *leaseHarness) Put(t *testing.T, name, value string, ttl time.Duration) {
	t.Helper()
	var opts []clientv3.OpOption
	if ttl > 0 {
		granted, err := h.server.Client().Grant(context.Background(), int64(ttl/time.Second))
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, clientv3.WithLease(granted.ID))
	}
	if _, err := h.server.Client().Put(context.Background(), h.key(name), value, opts...); err != nil {
		t.Fatal(err)
	}
}

func (h *leaseHarness) Get(t *testing.T, name string) (leasetest.Record, bool) {
	t.Helper()
	resp, err := h.server.Client().Get(context.Background(), h.key(name))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return leasetest.Record{}, false
	}
	return leasetest.Record{Value: string(resp.Kvs[0].Value), TTL: resp.Kvs[0].Lease != 0}, true
}

func (h *leaseHarness) Delete(t *testing.T, name string) {
	t.Helper()
	if _, err := h.server.Client().Delete(context.Background(), h.key(name)); err != nil {
		t.Fatal(err)
	}
}

func (h *leaseHarness) Compact(t *testing.T) {
	t.Helper()
	now, err := h.server.Client().Get(context.Background(), h.key("config"))
	if err != nil {
		t.Fatal(err)
	}
	// Cases run in parallel: the compaction of another one may be ahead.
	_, _ = h.server.Client().Compact(context.Background(), now.Header.Revision)
}
