package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
)

// cleanupTimeout bounds background cleanup. It is longer than a call's timeout,
// because the cause of the call's failure has to pass first.
const cleanupTimeout = time.Minute

// doomedHandles are the TTL handles that the store has asked etcd to revoke, or is
// about to, and that etcd may still have. A handle stays doomed after a request without
// an answer, which etcd may carry out at any later time.
//
// A snapshot may show the node a record on such a handle, and the node may take the
// record over. Then the record needs another handle, or it would be deleted.
type doomedHandles struct {
	mu   sync.Mutex
	ttls map[int64]time.Duration
}

func (d *doomedHandles) add(g lease.Grant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ttls == nil {
		d.ttls = map[int64]time.Duration{}
	}
	d.ttls[g.ID] = g.TTL
}

func (d *doomedHandles) remove(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.ttls, id)
}

// ttl returns the length of a handle, and whether it is doomed.
func (d *doomedHandles) ttl(id int64) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ttl, doomed := d.ttls[id]
	return ttl, doomed
}

// revokeLater revokes, in the background, the handle of a grant that the current
// call has made. Only our own record can hang on it.
func (s *Store) revokeLater(g lease.Grant) {
	s.doomed.add(g)
	s.later(func(ctx context.Context) error {
		_, err := s.client.Revoke(ctx, clientv3.LeaseID(g.ID))
		if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
			s.doomed.remove(g.ID)
		}
		return err
	})
}

// abandonLater gives back, in the background, a handle that our record no
// longer hangs on.
func (s *Store) abandonLater(id int64) {
	s.later(func(ctx context.Context) error { return s.abandon(ctx, clientv3.LeaseID(id)) })
}

// abandon revokes a handle unless a record hangs on it, since etcd would delete the
// record, which another call may have written. Such a handle expires by itself.
func (s *Store) abandon(ctx context.Context, id clientv3.LeaseID) error {
	resp, err := s.client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
	if err != nil || len(resp.Keys) > 0 || resp.TTL <= 0 {
		return err
	}
	_, err = s.client.Revoke(ctx, id)
	return err
}

// later cleans up in the background. A failure does no harm: leftovers expire.
func (s *Store) later(tidy func(context.Context) error) {
	s.work.Start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, cleanupTimeout)
		defer cancel()
		if err := tidy(ctx); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) && s.ctx.Err() == nil {
			s.o.Log.Info("etcd lease left to run out", "err", err)
		}
	})
}
