package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
)

// Create implements lease.Store.
func (s *Store) Create(ctx context.Context, key lease.Key, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	g := lease.Grant{Lease: lease.Lease{Key: key, Attrs: attrs}}
	err := s.create(ctx, &g, ttl)
	if err != nil {
		return lease.Grant{}, fmt.Errorf("create lease of %s: %w", key, err)
	}
	return g, nil
}

func (s *Store) create(ctx context.Context, g *lease.Grant, ttl time.Duration) error {
	value, err := encode(g.Lease)
	if err != nil {
		return err
	}
	raw := s.subnets + g.Key.String()
	return s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if err := s.grant(ctx, c, g, ttl); err != nil {
			return err
		}
		revision, err := swap(ctx, c, []guard{{key: g.Key, raw: raw}},
			clientv3.OpPut(raw, value, clientv3.WithLease(clientv3.LeaseID(g.ID))))
		if err != nil {
			// If the key is taken, the grant is of no use. If the outcome
			// is unknown, revoking deletes our record in case it was written,
			// or keeps it from being written late: either way no node holds a
			// subnet without knowing it. A node that finds the record before
			// takes it over on another handle.
			s.revokeLater(*g)
			return err
		}
		g.CreateRevision, g.ModRevision = revision, revision
		return nil
	})
}

// Renew implements lease.Store. It does not check that the record still hangs
// on the grant: the watch would have shown a change. Only a record on a doomed
// handle changes, by its move to another one.
func (s *Store) Renew(ctx context.Context, g lease.Grant) (lease.Grant, error) {
	if g.Reserved() {
		return g, nil
	}
	if ttl, doomed := s.doomed.ttl(g.ID); doomed {
		return s.Update(ctx, g, g.Attrs, ttl)
	}
	err := s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		began := s.o.Now()
		resp, err := c.KeepAliveOnce(ctx, clientv3.LeaseID(g.ID))
		if err != nil {
			return lostIfNotFound(err)
		}
		g.TTL = time.Duration(resp.TTL) * time.Second
		g.Expires = began.Add(g.TTL)
		return nil
	})
	if err != nil {
		return lease.Grant{}, fmt.Errorf("renew lease of %s: %w", g.Key, err)
	}
	return g, nil
}

// Update implements lease.Store. After an error of unknown outcome the record
// may have the new value and hang on a new TTL handle; the snapshot shows it.
func (s *Store) Update(ctx context.Context, g lease.Grant, attrs lease.Attrs, ttl time.Duration) (lease.Grant, error) {
	updated := g
	updated.Attrs = attrs
	if err := s.replace(ctx, g, &updated, ttl); err != nil {
		return lease.Grant{}, fmt.Errorf("update lease of %s: %w", g.Key, err)
	}
	return updated, nil
}

// Move implements lease.Store. Both keys change in one transaction, and watchers
// get both events in one message, the deletion first: so an upstream node, which
// handles them in order, ends with the routes of the new record.
func (s *Store) Move(
	ctx context.Context, g lease.Grant, to lease.Key, attrs lease.Attrs, ttl time.Duration,
) (lease.Grant, error) {
	moved := g
	moved.Key, moved.Attrs = to, attrs
	if err := s.replace(ctx, g, &moved, ttl); err != nil {
		return lease.Grant{}, fmt.Errorf("move lease of %s to %s: %w", g.Key, to, err)
	}
	return moved, nil
}

func (s *Store) replace(ctx context.Context, old lease.Grant, g *lease.Grant, ttl time.Duration) error {
	// A reservation must not gain a TTL (interop E4: upstream gives it one), and
	// a grant of the right length need not be replaced unless it is doomed.
	_, doomed := s.doomed.ttl(old.ID)
	fresh := !old.Reserved() && (doomed || seconds(ttl) != seconds(old.TTL))
	err := s.replaceOn(ctx, old, g, ttl, fresh)
	if errors.Is(err, lease.ErrLost) && !fresh && !old.Reserved() {
		// Either the record is gone, which the second try finds as well, or
		// only the grant is, under a record that another writer put without it.
		*g = lease.Grant{Lease: g.Lease}
		return s.replaceOn(ctx, old, g, ttl, true)
	}
	return err
}

func (s *Store) replaceOn(ctx context.Context, old lease.Grant, g *lease.Grant, ttl time.Duration, fresh bool) error {
	value, err := encode(g.Lease)
	if err != nil {
		return err
	}
	raw, err := s.rawKey(old)
	if err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		if fresh {
			if err := s.grant(ctx, c, g, ttl); err != nil {
				return err
			}
		}
		var opts []clientv3.OpOption
		if !g.Reserved() {
			opts = append(opts, clientv3.WithLease(clientv3.LeaseID(g.ID)))
		}
		revision, err := s.put(ctx, c, guard{old.Key, raw, old.ModRevision}, g.Key, value, opts...)
		if err != nil {
			// Only a refusal makes the new grant useless. If the outcome is
			// unknown our record may hang on it, and we are using the subnet.
			if fresh && (errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost)) {
				s.revokeLater(*g)
			}
			return err
		}
		g.ModRevision = revision
		if g.Key != old.Key {
			g.CreateRevision = revision
		}
		if fresh {
			s.abandonLater(old.ID)
		}
		return nil
	})
}

// Release implements lease.Store.
func (s *Store) Release(ctx context.Context, g lease.Grant) error {
	raw, err := s.rawKey(g)
	if err == nil {
		err = s.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
			_, err := swap(ctx, c, []guard{{g.Key, raw, g.ModRevision}}, clientv3.OpDelete(raw))
			if errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost) {
				return nil // not ours any more, so nothing to release
			}
			if err == nil && !g.Reserved() {
				s.abandonLater(g.ID)
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("release lease of %s: %w", g.Key, err)
	}
	return nil
}

// encode returns the value to write, after checking that every reader can parse
// its key. A single key that does not parse would make every upstream node drop
// all its peers (interop E1: it takes the list for empty).
func encode(l lease.Lease) (string, error) {
	back, err := lease.ParseKey(l.Key.String())
	if err != nil {
		return "", err
	}
	if back != l.Key {
		return "", fmt.Errorf("key %s has host bits", l.Key)
	}
	return string(lease.EncodeAttrs(l.Attrs)), nil
}

// put replaces a record, under the same key or another one.
func (s *Store) put(
	ctx context.Context, c *clientv3.Client, old guard, key lease.Key, value string, opts ...clientv3.OpOption,
) (int64, error) {
	if key == old.key {
		return swap(ctx, c, []guard{old}, clientv3.OpPut(old.raw, value, opts...))
	}
	free := guard{key: key, raw: s.subnets + key.String()}
	return swap(ctx, c, []guard{old, free}, clientv3.OpDelete(old.raw), clientv3.OpPut(free.raw, value, opts...))
}

// guard is the condition that a record was last changed at a revision; 0 means
// that it does not exist.
type guard struct {
	key      lease.Key
	raw      string // the store's key
	revision int64
}

// swap runs the ops in one transaction if all guards hold. It returns the revision
// of the change.
func swap(ctx context.Context, c *clientv3.Client, guards []guard, ops ...clientv3.Op) (int64, error) {
	var conditions []clientv3.Cmp
	var reads []clientv3.Op
	for _, g := range guards {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(g.raw), "=", g.revision))
		reads = append(reads, clientv3.OpGet(g.raw, clientv3.WithKeysOnly()))
	}
	resp, err := c.Txn(ctx).If(conditions...).Then(ops...).Else(reads...).Commit()
	if err != nil {
		return 0, lostIfNotFound(err)
	}
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	for i, g := range guards {
		for _, kv := range resp.Responses[i].GetResponseRange().Kvs {
			// The revision of the conflicting record, not of etcd as a whole: a
			// snapshot reaches the latter only when a record changes again.
			if kv.ModRevision != g.revision {
				return 0, &lease.ConflictError{Key: g.key, Revision: kv.ModRevision}
			}
		}
	}
	return 0, lease.ErrLost
}

// grant asks for a new TTL handle and enters it in g.
func (s *Store) grant(ctx context.Context, c *clientv3.Client, g *lease.Grant, ttl time.Duration) error {
	if ttl <= 0 {
		return fmt.Errorf("TTL %s is not positive", ttl)
	}
	began := s.o.Now()
	resp, err := c.Grant(ctx, seconds(ttl))
	if err != nil {
		return fmt.Errorf("grant of %s: %w", ttl, err)
	}
	g.ID = int64(resp.ID)
	g.TTL = time.Duration(resp.TTL) * time.Second // etcd has a minimum
	g.Expires = began.Add(g.TTL)
	return nil
}

// seconds converts to etcd's unit, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// rawKey finds the store's key of a grant.
func (s *Store) rawKey(g lease.Grant) (string, error) {
	if g.ModRevision == 0 {
		return "", errors.New("grant without a revision")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		return s.subnets + g.Key.String(), nil
	}
	return s.table.rawKey(g.Lease), nil
}

// lostIfNotFound translates etcd's error for an expired TTL handle.
func lostIfNotFound(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return lease.ErrLost
	}
	return err
}
