package labworld

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/scenarios/lang"
)

// netnsStore is the etcd of a lab.
type netnsStore struct {
	*harness.Store
	stopped bool
	// leaderless says that the store runs, but serves no request.
	leaderless bool
	last       []lang.Record // its records when it stopped
}

var errStopped = errors.New("the store is stopped")

// do performs one command on a running store.
func (s *netnsStore) do(command func(context.Context) error) error {
	if s.stopped {
		return errStopped
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return command(ctx)
}

// key returns the whole key of a name below the prefix.
func key(name string) string { return path.Join(harness.Prefix, name) }

func (s *netnsStore) Stop() error {
	return s.do(func(ctx context.Context) (err error) {
		s.last, err = s.Records()
		if err != nil {
			return err
		}
		s.stopped = true
		return s.Store.Stop(ctx)
	})
}

func (s *netnsStore) Start() error {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	if err := s.Store.Start(ctx); err != nil {
		return err
	}
	s.stopped = false
	return nil
}

// Wipe removes all subnets, reservations included, in one revision.
func (s *netnsStore) Wipe() error {
	return s.do(func(ctx context.Context) error {
		_, err := s.Client().Delete(ctx, key("subnets")+"/", clientv3.WithPrefix())
		return err
	})
}

// Backup implements [lang.Restorer].
func (s *netnsStore) Backup() error { return s.do(s.Store.Backup) }

// Restore implements [lang.Restorer].
func (s *netnsStore) Restore(further int) error {
	return s.do(func(ctx context.Context) error { return s.Store.Restore(ctx, further) })
}

func (s *netnsStore) Compact() error { return s.do(s.Store.Compact) }

func (s *netnsStore) Put(name, value string) error {
	return s.do(func(ctx context.Context) error { return s.PutRaw(ctx, key(name), value) })
}

// Delete removes a name, if it exists.
func (s *netnsStore) Delete(name string) error {
	return s.do(func(ctx context.Context) error {
		_, err := s.Client().Delete(ctx, key(name))
		return err
	})
}

func (s *netnsStore) Expire(name string) error {
	return s.do(func(ctx context.Context) error { return s.RevokeLease(ctx, key(name)) })
}

// SetTTL puts the same value again, with another TTL; 0: none, as for a reservation.
func (s *netnsStore) SetTTL(name string, ttl time.Duration) error {
	return s.do(func(ctx context.Context) error {
		records, err := s.ListLeases(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(records, func(r harness.Record) bool { return r.Key == key(name) })
		if i < 0 {
			return fmt.Errorf("set the TTL of %s: not found", name)
		}
		if ttl == 0 {
			return s.PutRaw(ctx, key(name), records[i].Value)
		}
		granted, err := s.Client().Grant(ctx, int64(ttl.Seconds()))
		if err != nil {
			return fmt.Errorf("set the TTL of %s: %w", name, err)
		}
		_, err = s.Client().Put(ctx, key(name), records[i].Value, clientv3.WithLease(granted.ID))
		return err
	})
}

// Records returns the records of the store. A stopped store keeps its last records.
func (s *netnsStore) Records() ([]lang.Record, error) {
	if s.stopped {
		return s.last, nil
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	list, err := s.ListLeases(ctx)
	if err != nil {
		return nil, err
	}
	records := make([]lang.Record, len(list))
	for i, r := range list {
		records[i] = lang.Record{Name: path.Base(r.Key), Value: r.Value, Reserved: r.Lease == 0, Created: r.CreateRev,
			Modified: r.ModRevision}
	}
	return records, nil
}
