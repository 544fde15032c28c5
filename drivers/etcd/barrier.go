package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// CatchUp returns once the view shows everything that was written before the
// call. It costs a small read and a few heartbeats.
func (s *Store) CatchUp(ctx context.Context) error {
	var written int64
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		resp, err := c.Get(ctx, s.configKey, clientv3.WithCountOnly())
		if err == nil {
			written = resp.Header.Revision
		}
		return err
	})
	for err == nil {
		shown, moved := s.shown()
		if shown >= written {
			return nil
		}
		s.hurry.Send()
		select {
		case <-moved:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.ctx.Done():
			err = errClosed
		}
	}
	return fmt.Errorf("catch up with etcd: %w", err)
}

// shown returns the revision up to which a synced view misses nothing, and a
// channel that closes when it changes.
func (s *Store) shown() (revision int64, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced {
		revision = max(min(s.table.configRevision, s.table.revision), s.proven)
	}
	return revision, s.moved
}

// advanced wakes the callers that wait in CatchUp. Its caller holds the lock.
func (s *Store) advanced() {
	close(s.moved)
	s.moved = make(chan struct{})
}
