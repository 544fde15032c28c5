package etcd

import (
	"context"
	"fmt"
	"path"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/following"
	"github.com/flanneld/flannel/internal/orphans"
	"github.com/flanneld/flannel/internal/wake"
)

// Store is a lease.Store over etcd.
type Store struct {
	o         Options
	configKey string
	subnets   string // the prefix of the subnets, with its trailing slash (interop E12: upstream lacks it)

	work *following.Work // all goroutines of the store
	ctx  context.Context // ends with Close

	connected chan struct{}    // closed once client is set
	client    *clientv3.Client // read only after connected
	conns     orphans.Conns    // of the client

	changed wake.Signal
	hurry   wake.Signal // asks for a heartbeat now
	doomed  doomedHandles

	// run alone uses these.
	told   complaint.Told // what the log has named of the present outage
	reread error          // the reason to read everything again; nil: none
	fresh  bool           // everything has just been read

	mu       sync.Mutex
	table    *table // nil until the first list; replaced by run alone
	snap     *lease.Snapshot
	stale    bool // the table is newer than snap
	synced   bool
	err      error         // the reason why the view is not synced
	progress int64         // the revision of the last answer to a heartbeat
	proven   int64         // no change up to this revision is missing
	moved    chan struct{} // closed when one of the above changes
}

var _ lease.Store = (*Store)(nil)

// Open starts a store. It fails at once if the options are wrong, but not if
// etcd is unreachable: the store keeps trying, and its View has the reason. The
// store lives until Close, or the end of ctx.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{
		o:         o,
		configKey: path.Join(o.Prefix, "config"),
		subnets:   path.Join(o.Prefix, "subnets") + "/",
		connected: make(chan struct{}),
		changed:   wake.NewSignal(),
		hurry:     wake.NewSignal(),
		moved:     make(chan struct{}),
		err:       errNotYet,
	}
	cfg, err := o.clientConfig(&s.conns)
	if err != nil {
		return nil, err
	}
	s.work = following.NewWork(ctx)
	s.ctx = s.work.Context()
	s.work.Start(func() { s.run(cfg) })
	return s, nil
}

// Close ends all work of the store and waits for it. Leases stay in etcd.
func (s *Store) Close() {
	s.work.Close()
}

// View implements lease.Store.
//
// View makes the snapshots; the handling of events makes none. So in a burst of thousands,
// the reader pays only for the snapshots that it asks for.
func (s *Store) View() lease.View {
	s.mu.Lock()
	var fresh []lease.Quarantined
	if s.stale {
		s.snap, fresh = s.table.snapshot()
		s.stale = false
	}
	v := lease.View{Snapshot: s.snap, Synced: s.synced, Err: s.err}
	s.mu.Unlock()

	for _, q := range fresh {
		// The reader of the snapshot acts on it and logs it for people.
		s.o.Log.Debug("record set aside", "key", q.Raw, "reason", q.Reason)
	}
	return v
}

func (s *Store) isSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// Changed implements lease.Store.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// update changes the result of View, and signals the change.
func (s *Store) update(change func()) {
	s.mu.Lock()
	change()
	s.advanced()
	s.mu.Unlock()
	s.changed.Send()
}

// do runs the requests of one call of the store, bounded by its timeout, by
// ctx and by the life of the store.
func (s *Store) do(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	if s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errClosed, s.ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	ctx, why := withReason(ctx)
	s.conns.Cut() // the request may announce a new address, so it must not use a connection from a lost one

	select {
	case <-s.connected:
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("%w: %w", ctx.Err(), s.err)
	}
	return why.explain(call(ctx, s.client))
}
