package server

import (
	"context"
	"crypto/tls"

	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/wake"
)

const patience = time.Minute

// inMemory is a datastore in this process.
type inMemory struct {
	changed wake.Signal

	mu   sync.Mutex
	snap *lease.Snapshot
}

// newMemory returns a datastore with some leases from 10.8.0.0/16 on, those of the network 10.0.0.0/8.
func newMemory(leases int) *inMemory {
	m := &inMemory{changed: wake.NewSignal()}
	m.snap = &lease.Snapshot{Revision: 1, History: 1, Config: lease.Document{
		Data: []byte(`{"Network":"10.0.0.0/8","SubnetLen":24,"Backend":{"Type":"vxlan"}}`), Revision: 1,
	}}
	for i := range leases {
		m.snap.Leases = append(m.snap.Leases, &lease.Lease{
			Key: keyAt(i), CreateRevision: 1, ModRevision: 1, ID: 7, Attrs: lease.Attrs{
				PublicIP:    netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}),
				BackendType: "vxlan", BackendData: []byte(`{"VNI":1,"VtepMAC":"c6:d2:32:6f:8f:44"}`),
			},
		})
	}
	return m
}

func keyAt(i int) lease.Key {
	return lease.Key{V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(8 + i>>8), byte(i), 0}), 24)}
}

func (m *inMemory) View() lease.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lease.View{Synced: true, Snapshot: m.snap}
}

func (m *inMemory) Changed() <-chan struct{}      { return m.changed }
func (m *inMemory) CatchUp(context.Context) error { return nil }
func (m *inMemory) Close()                        {}

// change makes a new revision with another set of leases.
func (m *inMemory) change(edit func(revision int64, leases []*lease.Lease) ([]*lease.Lease, error)) error {
	m.mu.Lock()
	next := *m.snap
	next.Revision++
	leases, err := edit(next.Revision, slices.Clone(next.Leases))
	if err == nil {
		slices.SortFunc(leases, func(a, b *lease.Lease) int { return a.Key.Compare(b.Key) })
		next.Leases = leases
		m.snap = &next
	}
	m.mu.Unlock()
	m.changed.Send()
	return err
}

// touch changes one record.
func (m *inMemory) touch(i int) {
	_ = m.change(func(revision int64, leases []*lease.Lease) ([]*lease.Lease, error) {
		touched := *leases[i]
		touched.ModRevision = revision
		leases[i] = &touched
		return leases, nil
	})
}

// PutRecord implements Store.
func (m *inMemory) PutRecord(_ context.Context, l lease.Lease, _ time.Duration) error {
	return m.change(func(revision int64, leases []*lease.Lease) ([]*lease.Lease, error) {
		i := slices.IndexFunc(leases, func(o *lease.Lease) bool { return o.Key == l.Key })
		was := int64(0)
		if i >= 0 {
			was = leases[i].ModRevision
			leases = slices.Delete(leases, i, i+1)
		}
		if was != l.ModRevision {
			return nil, &lease.ConflictError{Key: l.Key, Revision: was}
		}
		l.ModRevision = revision
		if was == 0 {
			l.CreateRevision = revision
		}
		return append(leases, &l), nil
	})
}

// DeleteRecord implements Store.
func (m *inMemory) DeleteRecord(_ context.Context, l lease.Lease) error {
	return m.change(func(_ int64, leases []*lease.Lease) ([]*lease.Lease, error) {
		return slices.DeleteFunc(leases, func(o *lease.Lease) bool {
			return o.Key == l.Key && o.ModRevision == l.ModRevision
		}), nil
	})
}

// Remaining implements Store.
func (m *inMemory) Remaining(context.Context, lease.Lease) (time.Duration, error) {
	return time.Hour, nil
}

// grant returns a record as the datastore holds it now.
func (m *inMemory) grant(l lease.Lease, err error) (lease.Grant, error) {
	if err != nil {
		return lease.Grant{}, err
	}
	for _, o := range m.View().Snapshot.Leases {
		if o.Key == l.Key {
			return lease.Grant{Lease: *o, TTL: time.Hour, Expires: time.Now().Add(time.Hour)}, nil
		}
	}
	return lease.Grant{}, lease.ErrLost
}

// Create implements lease.Store.
func (m *inMemory) Create(
	ctx context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	l := lease.Lease{Key: key, Attrs: attrs, ID: 8}
	return m.grant(l, m.PutRecord(ctx, l, ttl))
}

// Renew implements lease.Store.
func (m *inMemory) Renew(_ context.Context, g lease.Grant) (lease.Grant, error) {
	return m.grant(g.Lease, nil)
}

// Update implements lease.Store.
func (m *inMemory) Update(
	ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	l := g.Lease
	l.Attrs = attrs
	return m.grant(l, m.PutRecord(ctx, l, ttl))
}

// Move implements lease.Store.
func (m *inMemory) Move(
	ctx context.Context, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	_ = m.DeleteRecord(ctx, g.Lease) // it never fails
	return m.Create(ctx, to, attrs, ttl)
}

// Release implements lease.Store.
func (m *inMemory) Release(ctx context.Context, g lease.Grant) error {
	return m.DeleteRecord(ctx, g.Lease)
}

// serving is a server at a loopback address, until the end of a test.
type serving struct {
	*Server
	addr string
}

func serve(t *testing.T, m *inMemory, o Options, secrets *tls.Config) serving {
	t.Helper()
	o.Open = func(string) (Store, error) { return m, nil }
	s, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, secrets) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		eventually(t, "the end of all connections", func() bool { return s.connections() == 0 })
	})
	return serving{s, l.Addr().String()}
}

// connections returns how many connections there are.
func (s *Server) connections() int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return s.conns.all.open
}

// connectionsFrom returns how many connections a client has.
func (s *Server) connectionsFrom(ip string) int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	if g := s.conns.clients[clientAt(netip.MustParseAddr(ip))]; g != nil {
		return g.open
	}
	return 0
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	NewWithT(t).Eventually(cond, patience, 5*time.Millisecond).Should(BeTrue(), what)
}
