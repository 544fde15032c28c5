package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/internal/wake"
)

// Store is a lease.Store over the nodes of a Kubernetes cluster.
type Store struct {
	o     Options
	names nodelease.Names
	api   api

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // all goroutines of the store

	changed wake.Signal
	moved   wake.Signal // there may be a condition to publish

	notices    chan Notice     // to publish
	ending     context.Context // ends when Close begins
	endNotices context.CancelFunc
	published  chan struct{} // closed when no notice is published any more

	// run alone uses these.
	at      int64 // the revision to resume at; 0: read everything first
	chunked bool  // the API server has no streaming list
	whole   bool  // the next watch is of whole objects
	reads   flowcontrol.PassiveRateLimiter
	told    complaint.Told // what the log has named of the present outage

	mu        sync.Mutex
	doc       lease.Document // the network config in force
	network   config.Network
	again     context.CancelCauseFunc // ends the present attempt
	table     *nodelease.Table        // nil until the name of our node is known
	node      string
	synced    bool
	err       error // the reason why the view is not synced
	available bool  // the node condition has to say that the network is up
	own       standing
}

var _ lease.Store = (*Store)(nil)

// The store's own reasons for not being synced.
var (
	errClosed = errors.New("store is closed")
	errNotYet = errors.New("the API server has not been read yet")
)

// Open starts a store. It fails at once if the options are wrong, but not if
// the API server cannot be reached: the store keeps trying, and its View says
// why it has nothing to show. The store lives until Close, or the end of ctx.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if o.Node == "" && (o.PodName == "" || o.PodNamespace == "") {
		return nil, errNoNode
	}
	set, server, err := o.prepare()
	if err != nil {
		return nil, err
	}
	s := newStore(ctx, o, set, server)
	s.start()
	return s, nil
}

func newStore(ctx context.Context, o Options, set setup, api api) *Store {
	s := &Store{
		o: o, names: set.names, doc: set.doc, network: set.network, api: api, err: errNotYet,
		changed: wake.NewSignal(), moved: wake.NewSignal(),
		reads:   flowcontrol.NewTokenBucketPassiveRateLimiter(readsPerSecond, readsAtOnce),
		notices: make(chan Notice, noticesWaiting), published: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.ending, s.endNotices = context.WithCancel(s.ctx)
	return s
}

func (s *Store) start() {
	s.work.Go(s.run)
	s.work.Go(s.publishCondition)
	s.work.Go(s.publishNotices)
	s.work.Go(s.followConfig)
}

// Close publishes the waiting notices, then ends everything that the store has
// started, and waits for it. Annotations stay.
func (s *Store) Close() {
	s.flushNotices()
	s.cancel()
	s.work.Wait()
}

// View implements lease.Store. It makes the snapshots; the handling of changes makes none.
// So in a burst of thousands, the reader pays only for the snapshots that it asks for.
func (s *Store) View() lease.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := lease.View{Synced: s.synced, Err: s.err}
	if s.table == nil || s.table.Revision() == 0 {
		v.Assigned = &lease.Assigned{Err: s.err}
		return v
	}
	v.Snapshot, v.Assigned = s.table.Snapshot()
	return v
}

// Changed implements lease.Store.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// update changes the result of View. The change reports whether it has to wake
// the reader.
func (s *Store) update(change func() bool) {
	s.mu.Lock()
	own := s.own
	news := change()
	moved := s.own.uid != own.uid || s.own.status != own.status
	s.mu.Unlock()
	if news {
		s.changed.Send()
	}
	if moved {
		s.moved.Send()
	}
}

// take records the present state of a node.
func (s *Store) take(it item) {
	s.update(func() bool {
		s.saw(it, false)
		return s.table.Set(s.known(it), it.revision)
	})
}

// asKnown returns a node as the store knows it, and the revision of the last news of it; 0: none.
func (s *Store) asKnown(name string) (nodelease.Node, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Node(name)
}

// known returns the part of a node that the table needs. For our own node it includes
// the addresses. The caller holds mu.
func (s *Store) known(it item) nodelease.Node {
	n := it.node
	if n.Name == s.node {
		n.InternalIPs = internalIPs(it.status)
	}
	return n
}

// remove records the deletion of a node.
func (s *Store) remove(it item) {
	s.update(func() bool {
		if it.node.Name == s.node && it.revision >= s.own.revision {
			s.own = standing{revision: it.revision}
		}
		return s.table.Delete(it.node.Name, it.revision)
	})
}

// bounded returns a context for one request of a caller.
func (s *Store) bounded(ctx context.Context) (context.Context, func(), error) {
	if s.ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w: %w", errClosed, s.ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}
