package kube

import (
	"context"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// countedConn counts what is sent on a connection.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// always returns a function that reads the same credentials each time.
func always(cfg *rest.Config) func() (*rest.Config, error) {
	return func() (*rest.Config, error) { return cfg, nil }
}

// counted returns a client of an API server with that many nodes, over TLS, and the count of its writes.
func counted(t *testing.T, nodes int) (s *server, writes *atomic.Int64) {
	upstream := httptest.NewUnstartedServer(kubetest.Crowd(nodes))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	writes = new(atomic.Int64)
	s, err = newServer(always(&rest.Config{
		Host: upstream.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return countedConn{conn, writes}, err
		},
	}), names)
	if err != nil {
		t.Fatal(err)
	}
	return s, writes
}

// TestAnswersAreReadInLargeParts: a client of HTTP/2 sends an update of the
// window for each part that it reads.
func TestAnswersAreReadInLargeParts(t *testing.T) {
	const nodes = 1000
	s, writes := counted(t, nodes)
	st, err := s.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for {
		kind, it, err := st.next()
		if err != nil {
			t.Fatal(err)
		}
		if kind == "BOOKMARK" && it.complete {
			break
		}
	}
	if n := writes.Load(); n > nodes {
		t.Errorf("%d writes to read %d nodes, want at most one for each", n, nodes)
	}
}

// TestManyEventsCostNoWrites: where events come all the time, nothing is sent for one that is read.
func TestManyEventsCostNoWrites(t *testing.T) {
	const nodes = 1000
	s, writes := counted(t, nodes)
	p, err := s.list(t.Context(), "", func(item) {})
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.watch(t.Context(), p.revision, false, true)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	before := writes.Load()
	if err := s.clients().usual.Get().AbsPath("/do/heartbeat").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	for range nodes {
		if _, _, err := st.next(); err != nil {
			t.Fatal(err)
		}
	}
	const most = 5 // for the heartbeats, which another connection asked for
	if n := writes.Load() - before; n > most {
		t.Errorf("%d writes to read %d events, want at most %d", n, nodes, most)
	}
}
