package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/internal/pause"
)

// A watch that ended resumes at its revision, if etcd still knows the later
// changes. Reading everything again costs each node the whole list, and all
// nodes lose their watches at the same moment when a member restarts.

// position is the revision up to which the view knows all changes. The config
// has a watch of its own, which may be ahead of the one for the leases, or behind it.
type position struct{ config, leases int64 }

// position returns the revisions at which a watch can resume.
func (s *Store) position() position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return position{max(s.table.configRevision, s.proven), max(s.table.revision, s.proven)}
}

// progressed records an answer to a heartbeat: all watches have seen everything
// up to a revision. etcd before 3.4.25 and 3.5.8 may report it ahead of pending
// events, so it counts from the next answer on.
func (s *Store) progressed(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proven = max(s.proven, s.progress)
	s.progress = revision
	s.advanced()
}

// catchUp asks with one small request whether the watch can resume at the
// view's revision, and reads everything if not.
func (s *Store) catchUp(ctx context.Context) error {
	if s.table == nil {
		return s.list(ctx)
	}
	if s.reread == nil {
		why, err := s.verify(ctx)
		if why == nil {
			return err
		}
		s.reread = why // until a list has succeeded
	}
	if !s.spread(ctx, s.reread) {
		return context.Cause(ctx)
	}
	return s.list(ctx)
}

// Nodes that read everything again do so within perPeer times the number of
// peers, and within mostSpread at most. Each node reads as many leases as there
// are nodes, so etcd's load grows with the square of their number: 1,000 nodes
// read 260 MB within 10 s, 5,000 nodes 6.5 GB within 50 s.
const (
	perPeer    = 10 * time.Millisecond
	mostSpread = time.Minute
)

// spread waits for this node's turn to read everything again. It returns false
// if ctx ended first.
func (s *Store) spread(ctx context.Context, why error) bool {
	within := spreadOf(len(s.table.records))
	s.update(func() { s.err = fmt.Errorf("etcd: reading all leases again within %s: %w", within, why) })
	return pause.For(ctx, time.Duration(rand.Int64N(int64(within)+1)))
}

// spreadOf returns the time within which that many nodes read everything again.
func spreadOf(peers int) time.Duration { return min(time.Duration(peers)*perPeer, mostSpread) }

// The reasons to read everything again.
var (
	errOtherCluster = errors.New("etcd is another cluster")
	errOtherHistory = errors.New("etcd holds another history")
)

// verify compares the view with etcd's content at the position: the number of
// leases, the last changed one, and the config. A datastore restored from a
// backup may have passed the position with other changes. A reason means that
// everything has to be read again, an error that etcd did not answer.
func (s *Store) verify(ctx context.Context) (why, err error) {
	at := s.position()
	s.mu.Lock()
	history, settings := s.table.history, s.table.config.Revision
	records := int64(len(s.table.records))
	newest, changed := s.table.newest()
	s.mu.Unlock()
	var resp *clientv3.TxnResponse
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		resp, err = c.Txn(ctx).Then(
			clientv3.OpGet(s.configKey, clientv3.WithRev(at.config), clientv3.WithKeysOnly()),
			clientv3.OpGet(s.subnets, clientv3.WithPrefix(), clientv3.WithRev(at.leases), clientv3.WithCountOnly()),
			clientv3.OpGet(newest, clientv3.WithRev(at.leases), clientv3.WithKeysOnly()),
		).Commit()
		return err
	})
	switch {
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return err, nil
	case err != nil:
		return nil, err
	case resp.Header.ClusterId != history:
		return errOtherCluster, nil
	}
	config := resp.Responses[0].GetResponseRange()
	count := resp.Responses[1].GetResponseRange().Count
	last := resp.Responses[2].GetResponseRange()
	if modified(config) != settings || modified(last) != changed || count != records {
		return errOtherHistory, nil
	}
	return nil, nil
}

// modified returns the revision of the last change of the requested key; 0 if
// there is none.
func modified(r *pb.RangeResponse) int64 {
	if len(r.Kvs) == 0 {
		return 0
	}
	return r.Kvs[0].ModRevision
}

// list reads the config and all leases with one request (interop E2: no call
// for each lease), and replaces the store's knowledge.
//
// The read is linearizable: it shows at least every change that a watch has
// shown before. The revision can go back only if the datastore itself was wiped
// or restored from an older backup. Then the store takes the older revision as
// the truth.
func (s *Store) list(ctx context.Context) error {
	var resp *clientv3.TxnResponse
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		resp, err = c.Txn(ctx).Then(
			clientv3.OpGet(s.configKey),
			clientv3.OpGet(s.subnets, clientv3.WithPrefix()),
		).Commit()
		return err
	})
	if err != nil {
		return err
	}
	l := listed{
		history: resp.Header.ClusterId, revision: resp.Header.Revision,
		config: resp.Responses[0].GetResponseRange().Kvs, leases: resp.Responses[1].GetResponseRange().Kvs,
	}
	before := s.table
	s.update(func() {
		s.table = newTable(s.subnets, l, before)
		s.stale, s.err = true, errStarting
		s.proven, s.progress = 0, 0
	})
	s.reread, s.fresh = nil, true
	if before == nil {
		return nil
	}
	switch {
	case before.history != l.history:
		s.o.Log.Warn("etcd is another cluster", "was", before.history, "is", l.history)
	case l.revision < before.revision:
		s.o.Log.Warn("etcd was wiped or restored: its revision went back", "from", before.revision, "to", l.revision)
	}
	return nil
}
