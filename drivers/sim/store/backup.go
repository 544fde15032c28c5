package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// backup is a copy of a store's records, as a snapshot of etcd holds it.
type backup struct {
	revision int64
	records  map[string]*record
	ttls     map[string]time.Duration // by key; the records share their TTLs with the store
}

// Backup keeps a copy of all records for Restore.
func (s *Store) Backup() error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	b := &backup{revision: s.revision, records: maps.Clone(s.records), ttls: map[string]time.Duration{}}
	for key, r := range s.records {
		if r.ttl != nil {
			b.ttls[key] = r.ttl.length
		}
	}
	s.backup = b
	s.world.Note("store: backup", fmt.Sprintf("rev %d", s.revision))
	return nil
}

// Restore puts the store back to the last backup, with another history from
// there on: other clients have made as many further changes elsewhere. TTLs keep
// their handles and begin again, as in a restored etcd.
func (s *Store) Restore(further int64) error {
	b := s.backup
	if b == nil {
		return errors.New("restore: there is no backup")
	}
	s.world.Note("store: restored", fmt.Sprintf("rev %d and %d more", b.revision, further))
	s.breakStreams(errStoreBroken)
	s.epoch++
	lost := s.records
	s.clear()
	*s.counter = b.revision + further
	s.revision = *s.counter
	for _, key := range slices.Sorted(maps.Keys(b.records)) {
		s.putBack(*b.records[key], b.ttls[key])
	}
	s.version = s.newVersion(s.revision)
	s.former = s.version
	keys := maps.Clone(lost)
	maps.Copy(keys, s.records)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		s.tell(key, lost[key], s.records[key])
	}
	return nil
}

// putBack adds a record of the backup.
func (s *Store) putBack(r record, ttl time.Duration) {
	if r.ttl != nil {
		t := s.ttls[r.ttl.id]
		if t == nil {
			t = &storeTTL{id: r.ttl.id, length: ttl}
			s.ttls[t.id] = t
			s.refresh(t)
		}
		t.attach(r.key)
		r.ttl = t
	}
	s.size += r.size()
	s.records[r.key] = &r
	s.order = append(s.order, r.key)
}
