package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/flanneld/flannel/internal/pause"
)

// The store's own reasons for not being synced.
var (
	errClosed    = errors.New("store is closed")
	errNotYet    = errors.New("etcd has not been read yet")
	errStarting  = errors.New("watch not yet established")
	errCompacted = errors.New("watch fell behind: its next revision has been compacted")
	errSilent    = errors.New("watch is silent")
	errOlder     = errors.New("etcd is at an older revision than an earlier read")
)

// steady is how long a watch has to live for the next wait to be short again.
const steady = 10 * time.Second

// run keeps the store's view following etcd until the store is closed.
func (s *Store) run(cfg clientv3.Config) {
	var d pause.Backoff
	for s.ctx.Err() == nil {
		followed, err := s.attempt(cfg)
		if s.ctx.Err() != nil {
			err = errClosed
		}
		s.lost(err)
		if followed >= steady {
			d = 0
		}
		d.Wait(s.ctx)
	}
	if s.client != nil {
		s.client.Close()
	}
}

// lost records the reason why the view no longer follows etcd. It logs the
// beginning of an outage and each new reason, not every attempt.
func (s *Store) lost(err error) {
	s.update(func() { s.synced, s.err = false, err })
	if s.ctx.Err() == nil && s.told.IsNew(err.Error()) {
		s.o.Log.Warn("not following etcd", "err", err)
	}
}

// attempt connects if necessary, finds the revision to resume at, and follows
// the changes until that fails. It returns for how long the view followed etcd.
func (s *Store) attempt(cfg clientv3.Config) (followed time.Duration, err error) {
	// Everything that belongs to this attempt ends with it (interop E16).
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)

	if s.client == nil {
		if err := s.connect(cfg); err != nil {
			return 0, fmt.Errorf("etcd: connect: %w", err)
		}
	}
	if err := s.catchUp(ctx); err != nil {
		return 0, fmt.Errorf("etcd: read %s and %s: %w", s.configKey, s.subnets, err)
	}
	followed, err = s.watch(ctx, cancel)
	if err != nil {
		err = fmt.Errorf("etcd: watch %s: %w", s.subnets, err)
	}
	return followed, err
}

// connect makes the client. With a password it fetches a token, so it can fail
// while etcd is unreachable; without one, it only checks the options.
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

// watch follows the changes since the store's position until the stream ends,
// and returns why it ended. It calls cancel after too long a silence. Without a
// fresh list the view counts as following once a heartbeat is answered: etcd
// answers none before all changes since the position are on their way.
func (s *Store) watch(ctx context.Context, cancel context.CancelCauseFunc) (followed time.Duration, err error) {
	// Every message resets the timer that detects silence.
	alive := time.AfterFunc(s.o.Timeout, func() { cancel(errSilent) })
	defer alive.Stop()
	var began time.Time
	defer func() {
		if !began.IsZero() {
			followed = time.Since(began)
		}
	}()

	at, caughtUp := s.position(), s.fresh
	s.fresh = false
	follow := func() {
		began = time.Now()
		s.follows(at)
	}
	stream, err := s.openWatch(ctx, at)
	if err != nil {
		return 0, s.watchError(ctx, err)
	}
	for created := 0; ; {
		resp, err := stream.Recv()
		if err != nil {
			return 0, s.watchError(ctx, err)
		}
		alive.Reset(s.o.Heartbeat + s.o.Timeout)
		switch {
		case resp.CompactRevision != 0:
			s.reread = errCompacted
			return 0, errCompacted
		case resp.Canceled:
			return 0, fmt.Errorf("refused: %s", resp.CancelReason)
		case resp.Created:
			created++
			if created == len(s.watched()) {
				if caughtUp {
					follow()
				}
				s.work.Start(func() { s.heartbeat(ctx, stream) })
			}
		case len(resp.Events) > 0:
			s.fold(resp.Events)
		case s.behind(resp.Header.Revision):
			return 0, errOlder
		case resp.WatchId == clientv3.InvalidWatchID: // an answer to a heartbeat
			s.progressed(resp.Header.Revision)
			if began.IsZero() {
				follow()
			}
		}
	}
}

// follows records that the view follows etcd, from a position on.
func (s *Store) follows(at position) {
	s.told.Forget()
	s.update(func() { s.synced, s.err = true, nil })
	s.o.Log.Info("following etcd", "revision", at.leases)
}

// watched returns the ranges to watch, as key and end. One range from the
// config to the subnets would do, but a user's rights may not cover the keys
// between them.
func (s *Store) watched() [2][2]string {
	return [2][2]string{
		{s.configKey, ""},
		{s.subnets, clientv3.GetPrefixRangeEnd(s.subnets)},
	}
}

// openWatch opens a stream with all watches on it.
//
// Each begins at the revision that the store knows already; the store skips the
// events of that revision, which come once more. A watch from the next revision
// would get no answer to its heartbeats until a program writes something: etcd
// gives none for a revision that it has not reached.
func (s *Store) openWatch(ctx context.Context, at position) (pb.Watch_WatchClient, error) {
	// A member that lost its leader would keep the stream open and see nothing.
	ctx = clientv3.WithRequireLeader(ctx)
	stream, err := pb.NewWatchClient(s.client.ActiveConnection()).
		Watch(ctx, grpc.WaitForReady(true), unlimited)
	if err != nil {
		return nil, err
	}
	for i, r := range s.watched() {
		err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{
				Key: []byte(r[0]), RangeEnd: []byte(r[1]), StartRevision: [...]int64{at.config, at.leases}[i],
			},
		}})
		if err != nil {
			return nil, err
		}
	}
	return stream, nil
}

// catchUpHeartbeat is the interval of heartbeats until the view has caught up:
// etcd drops such a request while changes are still to be sent.
const catchUpHeartbeat = 50 * time.Millisecond

// heartbeat asks for a sign of life at intervals, until ctx ends.
func (s *Store) heartbeat(ctx context.Context, stream pb.Watch_WatchClient) {
	for {
		wait := s.o.Heartbeat
		if !s.isSynced() {
			wait = min(wait, catchUpHeartbeat)
		}
		if !s.pause(ctx, wait) {
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

// pause waits until a heartbeat is due or asked for. It returns false if ctx ended.
func (s *Store) pause(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.hurry:
	case <-ctx.Done():
		return false
	}
	return true
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

// fold applies the events of one message to the table.
func (s *Store) fold(events []*clientv3.Event) {
	s.update(func() {
		s.table.apply(events)
		s.stale = true
	})
}

// behind reports whether a revision is older than the table. An answer to a
// heartbeat with such a revision comes from a datastore that was wiped under an
// open connection, or from a member that lags: a new read decides.
func (s *Store) behind(revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return revision < s.table.revision
}
