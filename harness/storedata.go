package harness

import (
	"context"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Record is a key of the store with its value.
type Record struct {
	Key         string // the whole key
	Value       string
	Lease       int64 // id of its etcd lease, 0 for none
	CreateRev   int64
	ModRevision int64
}

// SetConfig stores the network config.
func (s *Store) SetConfig(ctx context.Context, config string) error {
	return s.PutRaw(ctx, path.Join(Prefix, "config"), config)
}

// SetConfigOf stores the config of a named network.
func (s *Store) SetConfigOf(ctx context.Context, network, config string) error {
	return s.PutRaw(ctx, ConfigKeyOf(network), config)
}

// ConfigKeyOf returns the whole key of the config of a named network.
func ConfigKeyOf(network string) string { return path.Join(Prefix, network, "config") }

// SubnetKey returns the whole key of a lease, by its last part, such as
// "10.5.34.0-24".
func SubnetKey(name string) string { return path.Join(Prefix, "subnets", name) }

// PutRaw stores any value under any key, without a lease.
func (s *Store) PutRaw(ctx context.Context, key, value string) error {
	if _, err := s.client.Put(ctx, key, value); err != nil {
		return fmt.Errorf("store: put %s: %w", key, err)
	}
	return nil
}

// DeleteKey removes a key; a missing key is an error.
func (s *Store) DeleteKey(ctx context.Context, key string) error {
	resp, err := s.client.Delete(ctx, key)
	if err == nil && resp.Deleted == 0 {
		err = fmt.Errorf("not found")
	}
	if err != nil {
		return fmt.Errorf("store: delete %s: %w", key, err)
	}
	return nil
}

// ListLeases returns all records of subnets, readable or not, in the order of
// their keys.
func (s *Store) ListLeases(ctx context.Context) ([]Record, error) {
	resp, err := s.client.Get(ctx, SubnetKey("")+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("store: list leases: %w", err)
	}
	records := make([]Record, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		records = append(records, Record{
			Key: string(kv.Key), Value: string(kv.Value), Lease: kv.Lease,
			CreateRev: kv.CreateRevision, ModRevision: kv.ModRevision,
		})
	}
	return records, nil
}

// RevokeLease ends a key's etcd lease, as if its time had run out.
func (s *Store) RevokeLease(ctx context.Context, key string) error {
	resp, err := s.client.Get(ctx, key)
	if err == nil && (len(resp.Kvs) == 0 || resp.Kvs[0].Lease == 0) {
		err = fmt.Errorf("no such key with a lease")
	}
	if err == nil {
		_, err = s.client.Revoke(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
	}
	if err != nil {
		return fmt.Errorf("store: revoke the lease of %s: %w", key, err)
	}
	return nil
}

// Compact forgets all history except the present, so that a disconnected client
// cannot catch up by events.
func (s *Store) Compact(ctx context.Context) error {
	resp, err := s.client.Get(ctx, Prefix)
	if err == nil {
		_, err = s.client.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil {
		return fmt.Errorf("store: compact: %w", err)
	}
	return nil
}
