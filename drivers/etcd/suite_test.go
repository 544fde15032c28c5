package etcd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/internal/suite"
)

func TestStore(t *testing.T) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	suite.Run(t, "etcd lease store")
}

// shared serves all tests that do not disturb their server; each has a prefix
// of its own in it.
var (
	shared   *embedded.Server
	prefixes atomic.Int64
)

var _ = BeforeSuite(func(ctx SpecContext) {
	// Proxies stand before it, and they take TCP.
	shared = startServer(ctx, embedded.Options{
		Dir: GinkgoT().TempDir(), ListenClient: []string{"http://127.0.0.1:0"},
	})
})

// startServer runs an etcd until the end of the test or suite.
func startServer(ctx context.Context, o embedded.Options) *embedded.Server {
	GinkgoHelper()
	o.UnsafeNoSync = true
	server, err := embedded.Start(ctx, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Close)
	return server
}

// newPrefix returns a prefix that no other test uses.
func newPrefix() string { return fmt.Sprintf("/test/%d/network", prefixes.Add(1)) }

// options returns options for a server, with a prefix of their own and short
// timeouts.
func options(server *embedded.Server) Options {
	return Options{
		Endpoints: server.Endpoints(),
		Prefix:    newPrefix(),
		Timeout:   10 * time.Second,
		Heartbeat: time.Second,
	}
}

// open returns a store that is closed at the end of the test.
func open(o Options) *Store {
	GinkgoHelper()
	s, err := Open(context.Background(), o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.Close)
	return s
}

// openSynced returns a store that has read everything.
func openSynced(o Options) *Store {
	GinkgoHelper()
	s := open(o)
	eventuallySynced(s)
	return s
}

func eventuallySynced(s *Store) {
	GinkgoHelper()
	Eventually(s.View).Should(HaveField("Synced", true))
}

// subnets lists the keys of the leases that a store shows.
func subnets(s *Store) func() []string {
	return func() []string {
		keys := []string{}
		if snap := s.View().Snapshot; snap != nil {
			for _, l := range snap.Leases {
				keys = append(keys, l.Key.String())
			}
		}
		return keys
	}
}

// quarantined lists the raw keys that a store has quarantined.
func quarantined(s *Store) func() []string {
	return func() []string {
		keys := []string{}
		if snap := s.View().Snapshot; snap != nil {
			for _, q := range snap.Quarantined {
				keys = append(keys, q.Raw)
			}
		}
		return keys
	}
}

// leaseOf returns the lease of a key in the present snapshot.
func leaseOf(s *Store, k string) lease.Lease {
	GinkgoHelper()
	for _, l := range s.View().Snapshot.Leases {
		if l.Key == key(k) {
			return *l
		}
	}
	Fail("no lease of " + k)
	return lease.Lease{}
}

// key parses a subnet key.
func key(s string) lease.Key {
	GinkgoHelper()
	k, err := lease.ParseKey(s)
	Expect(err).NotTo(HaveOccurred())
	return k
}

// attrs returns the attributes of a host-gw node.
func attrs(ip string) lease.Attrs {
	return lease.Attrs{PublicIP: netip.MustParseAddr(ip), BackendType: "host-gw"}
}

// value returns the same attributes on the wire, as another implementation
// writes them.
func value(ip string) string {
	return fmt.Sprintf(`{"PublicIP":%q,"PublicIPv6":null,"BackendType":"host-gw"}`, ip)
}

// put writes a record without the store.
func put(server *embedded.Server, key, value string, opts ...clientv3.OpOption) int64 {
	GinkgoHelper()
	resp, err := server.Client().Put(context.Background(), key, value, opts...)
	Expect(err).NotTo(HaveOccurred())
	return resp.Header.Revision
}

// get reads a record without the store; nil if there is none.
func get(server *embedded.Server, key string) (value []byte, id int64) {
	GinkgoHelper()
	resp, err := server.Client().Get(context.Background(), key)
	Expect(err).NotTo(HaveOccurred())
	if len(resp.Kvs) == 0 {
		return nil, 0
	}
	return resp.Kvs[0].Value, resp.Kvs[0].Lease
}

func remove(server *embedded.Server, key string) (revision int64) {
	GinkgoHelper()
	resp, err := server.Client().Delete(context.Background(), key)
	Expect(err).NotTo(HaveOccurred())
	return resp.Header.Revision
}

// granted returns a TTL handle.
func granted(server *embedded.Server, ttl int64) clientv3.LeaseID {
	GinkgoHelper()
	resp, err := server.Client().Grant(context.Background(), ttl)
	Expect(err).NotTo(HaveOccurred())
	return resp.ID
}

// handles counts the TTL handles of a server.
func handles(server *embedded.Server) func() (int, error) {
	return func() (int, error) {
		resp, err := server.Client().Leases(context.Background())
		if err != nil {
			return 0, err
		}
		return len(resp.Leases), nil
	}
}

// writeFile writes a file of the test and returns its path.
func writeFile(name string, data []byte) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
	return path
}
