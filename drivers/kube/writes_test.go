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

// TestEventsCostNoWrites: with HTTP/2 a client sends an update of its window for each event that it reads.
func TestEventsCostNoWrites(t *testing.T) {
	const nodes = 1000
	upstream := httptest.NewUnstartedServer(kubetest.Crowd(nodes, false))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	var writes atomic.Int64
	s, err := newServer(&rest.Config{
		Host: upstream.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return countedConn{conn, &writes}, err
		},
	}, names)
	if err != nil {
		t.Fatal(err)
	}
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
	const most = 10 // TLS and a request
	if n := writes.Load(); n == 0 || n > most {
		t.Errorf("%d writes to read %d nodes, want at most %d", n, nodes, most)
	}
}
