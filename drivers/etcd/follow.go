package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Why a store is not synced, where etcd itself does not say it.
var (
	errClosed    = errors.New("store is closed")
	errNotYet    = errors.New("etcd has not been read yet")
	errStarting  = errors.New("watch not yet established")
	errCompacted = errors.New("watch fell behind: its next revision has been compacted")
	errSilent    = errors.New("watch is silent")
	errOlder     = errors.New("etcd is at an older revision than what was read from it")
)

// run keeps the store's view following etcd until the store is closed.
func (s *Store) run(cfg clientv3.Config) {
	var d delay
	for s.ctx.Err() == nil {
		synced, err := s.attempt(cfg)
		if s.ctx.Err() != nil {
			err = errClosed
		}
		s.lost(err)
		if synced {
			d = 0
		}
		d.wait(s.ctx)
	}
	if s.client != nil {
		s.client.Close()
	}
}

// lost notes why the view no longer follows etcd. Of an outage, only the
// beginning and each new reason are logged, not every attempt.
func (s *Store) lost(err error) {
	s.update(func() { s.synced, s.err = false, err })
	// Ports and revisions do not make a new reason.
	reason := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, err.Error())
	if reason != s.complaint && s.ctx.Err() == nil {
		s.o.Log.Warn("not following etcd", "err", err)
	}
	s.complaint = reason
}

// attempt connects if need be, reads everything and follows the changes until
// that fails. It reports whether it got as far as following.
func (s *Store) attempt(cfg clientv3.Config) (synced bool, err error) {
	// Whatever belongs to this attempt ends with it (interop E16).
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)

	if s.client == nil {
		if err := s.connect(cfg); err != nil {
			return false, fmt.Errorf("etcd: connect: %w", err)
		}
	}
	revision, err := s.list(ctx)
	if err != nil {
		return false, fmt.Errorf("etcd: read %s and %s: %w", s.configKey, s.subnets, err)
	}
	if synced, err = s.watch(ctx, cancel, revision); err != nil {
		err = fmt.Errorf("etcd: watch %s: %w", s.subnets, err)
	}
	return synced, err
}

// connect makes the client. With a password that means to fetch a token, so
// it can fail while etcd is unreachable; without, it only checks the options.
func (s *Store) connect(cfg clientv3.Config) error {
	ctx, why := withReason(s.ctx)
	cfg.Context = ctx
	client, err := clientv3.New(cfg)
	if err != nil {
		return why.explain(err)
	}
	s.client = client
	close(s.connected)
	return nil
}

// list reads the config and all leases with one request (interop E2), at one
// revision, and replaces what the store knew.
//
// The read is linearizable: it shows at least whatever any watch has shown
// before, so the revision cannot go back but in one way, which is that the
// datastore itself was wiped or restored from an older backup. Then the older
// revision is the truth, and it is taken.
func (s *Store) list(ctx context.Context) (revision int64, err error) {
	var resp *clientv3.TxnResponse
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) (err error) {
		resp, err = c.Txn(ctx).Then(
			clientv3.OpGet(s.configKey),
			clientv3.OpGet(s.subnets, clientv3.WithPrefix()),
		).Commit()
		return err
	})
	if err != nil {
		return 0, err
	}
	config := resp.Responses[0].GetResponseRange().Kvs
	leases := resp.Responses[1].GetResponseRange().Kvs
	revision = resp.Header.Revision

	var before int64
	s.update(func() {
		if s.table != nil {
			before = s.table.revision
		}
		s.table = newTable(s.subnets, revision, config, leases, s.table)
		s.stale, s.err = true, errStarting
	})
	if revision < before {
		s.o.Log.Warn("etcd was wiped or restored: its revision went back", "from", before, "to", revision)
	}
	return revision, nil
}

// watch follows the changes since a revision until the stream ends, and says
// why it ended. It calls cancel when it has waited too long.
func (s *Store) watch(ctx context.Context, cancel context.CancelCauseFunc, revision int64) (synced bool, err error) {
	// Silence is noticed by a timer that every message winds up again.
	alive := time.AfterFunc(s.o.Timeout, func() { cancel(errSilent) })
	defer alive.Stop()

	// Events of this very revision come once more and are skipped. A watch from
	// the next one would get no answer to its heartbeats until somebody writes
	// something somewhere: etcd gives none for a revision that it has not reached.
	stream, err := s.openWatch(ctx, revision)
	if err != nil {
		return false, s.watchError(ctx, err)
	}
	for created := 0; ; {
		resp, err := stream.Recv()
		if err != nil {
			return synced, s.watchError(ctx, err)
		}
		alive.Reset(s.o.Heartbeat + s.o.Timeout)
		switch {
		case resp.CompactRevision != 0:
			return synced, errCompacted
		case resp.Canceled:
			return synced, fmt.Errorf("refused: %s", resp.CancelReason)
		case resp.Created:
			if created++; created == len(s.watched()) {
				synced, s.complaint = true, ""
				s.update(func() { s.synced, s.err = true, nil })
				s.o.Log.Info("following etcd", "revision", revision)
				s.start(func() { s.heartbeat(ctx, stream) })
			}
		case len(resp.Events) > 0:
			s.fold(resp.Events)
		case s.behind(resp.Header.Revision):
			return synced, errOlder
		}
	}
}

// watched are the ranges to watch, as key and end. Everything from the config
// to the subnets would be one, but a user's rights may not cover what lies
// between them.
func (s *Store) watched() [2][2]string {
	return [2][2]string{
		{s.configKey, ""},
		{s.subnets, clientv3.GetPrefixRangeEnd(s.subnets)},
	}
}

// openWatch opens a stream with all watches on it.
func (s *Store) openWatch(ctx context.Context, from int64) (pb.Watch_WatchClient, error) {
	// A member that lost its leader would keep the stream open and see nothing.
	ctx = clientv3.WithRequireLeader(ctx)
	stream, err := pb.NewWatchClient(s.client.ActiveConnection()).
		Watch(ctx, grpc.WaitForReady(true), unlimited)
	if err != nil {
		return nil, err
	}
	for _, r := range s.watched() {
		err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{
				Key: []byte(r[0]), RangeEnd: []byte(r[1]), StartRevision: from,
			},
		}})
		if err != nil {
			return nil, err
		}
	}
	return stream, nil
}

// heartbeat asks for a sign of life from time to time, until ctx ends.
func (s *Store) heartbeat(ctx context.Context, stream pb.Watch_WatchClient) {
	t := time.NewTicker(s.o.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
			ProgressRequest: &pb.WatchProgressRequest{},
		}})
		if err != nil {
			return // the receiver learns the reason
		}
	}
}

// watchError finds the reason behind the end of a stream.
func (s *Store) watchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if st, ok := status.FromError(err); ok {
		return errors.New(st.Message())
	}
	return err
}

// fold brings the events of one message into the table.
func (s *Store) fold(events []*clientv3.Event) {
	s.update(func() {
		s.table.apply(events)
		s.stale = true
	})
}

// behind reports whether a revision is older than the table. An answer to a
// heartbeat with such a revision comes from a datastore that was wiped under
// an open connection, or from a member that lags: reading again tells.
func (s *Store) behind(revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return revision < s.table.revision
}
