package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/orphans"
	"github.com/flanneld/flannel/internal/tlsfiles"
	"github.com/flanneld/flannel/internal/wake"
)

// Store is a lease.Store over flannel servers.
type Store struct {
	o      Options
	bases  []string // the URL of the network at each server
	client *http.Client
	conns  orphans.Conns // of the client

	work *following.Work // all goroutines of the store
	ctx  context.Context // ends with Close

	changed wake.Signal
	doubts  doubts

	told complaint.Told // what the log has named of the present outage; run alone uses it

	mu      sync.Mutex
	table   *table // immutable; nil until the first snapshot
	synced  bool
	err     error // the reason why the view is not synced
	current int   // the server in use, an index of bases
	old     bool  // it speaks only the old API

	oldConfig *api.Document // of an old server
}

var _ lease.Store = (*Store)(nil)

var (
	errClosed = errors.New("store is closed")
	errNotYet = errors.New("no server has answered yet")
)

// Open starts a store. It fails at once if the options are wrong, but not if no
// server is reachable: the store keeps trying, and its View has the reason. The
// store lives until Close, or the end of ctx.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	bases, err := o.bases()
	if err != nil {
		return nil, err
	}
	s := &Store{
		o: o, bases: bases, changed: wake.NewSignal(), err: errNotYet,
		current: rand.IntN(len(bases)), // nodes spread over the servers
	}
	s.client, err = o.client(&s.conns)
	if err != nil {
		return nil, err
	}
	s.work = following.NewWork(ctx)
	s.ctx = s.work.Context()
	s.work.Start(s.run)
	return s, nil
}

// client returns a client for the servers. It notes its connections.
func (o Options) client(conns *orphans.Conns) (*http.Client, error) {
	secrets, err := tlsfiles.Files{Flags: "remote", Cert: o.CertFile, Key: o.KeyFile, CA: o.CAFile}.Client()
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: o.Timeout}
	dial := tlsfiles.Dial(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return conns.Keep(conn), nil
	})
	transport := &http.Transport{
		DialContext: dial, DialTLSContext: dial.Secure(secrets, o.Timeout),
		MaxIdleConnsPerHost: 1, IdleConnTimeout: o.Heartbeat, DisableCompression: true,
	}
	return &http.Client{
		Transport: transport,
		// A server never redirects, and credentials must not reach another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Close ends all work of the store and waits for it. Leases stay in the datastore.
func (s *Store) Close() {
	s.work.Close()
	s.client.CloseIdleConnections()
}

// View implements lease.Store.
func (s *Store) View() lease.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := lease.View{Synced: s.synced, Err: s.err}
	if s.table != nil {
		v.Snapshot = s.table.snapshot
	}
	return v
}

// Changed implements lease.Store.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// update changes the result of View, and signals the change.
func (s *Store) update(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.changed.Send()
}

// server returns the server in use, and whether it speaks only the old API.
func (s *Store) server() (at int, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.old
}

func (s *Store) present() *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}
