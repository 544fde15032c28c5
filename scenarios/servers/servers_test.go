package servers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/etcd"
	"github.com/flanneld/flannel/drivers/etcd/embedded"
	"github.com/flanneld/flannel/drivers/remote"
	"github.com/flanneld/flannel/drivers/remote/server"
)

const patience = time.Minute

var prefixes atomic.Int64

// datastore is a prefix of an etcd.
type datastore struct {
	etcd   *embedded.Server
	prefix string
}

func startEtcd(t *testing.T) *embedded.Server {
	t.Helper()
	started, err := embedded.Start(context.Background(), embedded.Options{Dir: t.TempDir(), UnsafeNoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
	return started
}

func newPrefix(started *embedded.Server) datastore {
	return datastore{started, fmt.Sprintf("/test/%d/network", prefixes.Add(1))}
}

// open opens the store of a network; the empty name is the unnamed one.
func (d datastore) open(network string) (*etcd.Store, error) {
	return etcd.Open(context.Background(), etcd.Options{
		Endpoints: d.etcd.Endpoints(), Prefix: d.prefix + "/" + network, Timeout: 10 * time.Second, Heartbeat: time.Second,
	})
}

// running is a server at an address.
type running struct {
	*server.Server
	addr string
}

// serve runs a server until the end of the test, or until it is closed.
func (d datastore) serve(t *testing.T, o server.Options, secrets *tls.Config) running {
	t.Helper()
	return d.serveAt(t, "127.0.0.1:0", o, secrets)
}

func (d datastore) serveAt(t *testing.T, addr string, o server.Options, secrets *tls.Config) running {
	t.Helper()
	o.Open = func(network string) (server.Store, error) { return d.open(network) }
	o.Heartbeat = time.Second
	s, err := server.New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, secrets) }()
	t.Cleanup(func() {
		_ = s.Close() // a test may have closed it
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return running{s, l.Addr().String()}
}

// client opens a store at servers.
func client(t *testing.T, o remote.Options) *remote.Store {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	o.Heartbeat = time.Second
	s, err := remote.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	NewWithT(t).Eventually(cond, patience, 5*time.Millisecond).Should(BeTrue(), what)
}

// synced waits until a store is synced.
func synced(t *testing.T, s lease.Store) {
	t.Helper()
	eventually(t, "sync", func() bool { return s.View().Synced })
}

func key(t *testing.T, text string) lease.Key {
	t.Helper()
	k, err := lease.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
