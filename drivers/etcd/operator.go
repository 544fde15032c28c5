package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
)

// The methods in this file are for operators. Each changes the store by
// compare-and-swap against the record that the operator saw, and returns an error
// that wraps [lease.ErrConflict] or [lease.ErrLost] if the record is another one.

// errConfigChanged says that the network config is not the one that the operator saw.
var errConfigChanged = errors.New("the network config has changed meanwhile")

// SetConfig replaces the network config that was last changed at a revision; 0: there
// is none.
func (s *Store) SetConfig(ctx context.Context, data []byte, revision int64) error {
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := swap(ctx, c, []guard{{raw: s.configKey, revision: revision}}, clientv3.OpPut(s.configKey, string(data)))
		return err
	})
	if errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
		err = errConfigChanged
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s.configKey, err)
	}
	return nil
}

// PutRecord writes a record with a TTL; with 0 it is a reservation, which never
// expires (interop 3.6). A record without a ModRevision is new.
func (s *Store) PutRecord(ctx context.Context, l lease.Lease, ttl time.Duration) error {
	value, err := encode(l)
	raw := s.subnets + l.Key.String()
	if err == nil && l.ModRevision != 0 {
		raw, err = s.rawKey(lease.Grant{Lease: l})
	}
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", l.Key, err)
	}
	g := lease.Grant{Lease: l}
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		var opts []clientv3.OpOption
		if ttl > 0 {
			if err := s.grant(ctx, c, &g, ttl); err != nil {
				return err
			}
			opts = append(opts, clientv3.WithLease(clientv3.LeaseID(g.ID)))
		}
		_, err := swap(ctx, c, []guard{{l.Key, raw, l.ModRevision}}, clientv3.OpPut(raw, value, opts...))
		if ttl > 0 && (errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost)) {
			s.revokeLater(g)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", l.Key, err)
	}
	return nil
}

// DeleteRecord deletes a record as the operator saw it.
func (s *Store) DeleteRecord(ctx context.Context, l lease.Lease) error {
	raw, err := s.rawKey(lease.Grant{Lease: l})
	if err == nil {
		err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
			_, err := swap(ctx, c, []guard{{l.Key, raw, l.ModRevision}}, clientv3.OpDelete(raw))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("delete the record of %s: %w", l.Key, err)
	}
	return nil
}

// Remaining returns the time until a record expires; 0 for a reservation.
func (s *Store) Remaining(ctx context.Context, l lease.Lease) (time.Duration, error) {
	if l.Reserved() {
		return 0, nil
	}
	var left time.Duration
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		resp, err := c.TimeToLive(ctx, clientv3.LeaseID(l.ID))
		if err == nil && resp.TTL < 0 {
			err = lease.ErrLost
		}
		if err == nil {
			left = time.Duration(resp.TTL) * time.Second
		}
		return lostIfNotFound(err)
	})
	if err != nil {
		return 0, fmt.Errorf("TTL of %s: %w", l.Key, err)
	}
	return left, nil
}

// Complaints returns what the member at an endpoint says against its etcd, such as "alarm:NOSPACE" or that it has no
// leader. It needs no rights.
func (s *Store) Complaints(ctx context.Context, endpoint string) (complaints []string, err error) {
	err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		status, err := c.Status(ctx, endpoint)
		if err == nil {
			complaints = status.Errors
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the member at %s: %w", endpoint, err)
	}
	return complaints, nil
}
