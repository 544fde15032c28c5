package store

import (
	"fmt"
	"strings"
	"time"
)

// The functions of this file are an operator's commands with the store's own
// tools. Names are below the prefix: "config", "subnets/10.5.1.0-24". The tools
// run on the server's machine: no network fault affects them, but a server
// without a leader does.

// Get returns the value under a name.
func (s *Store) Get(name string) (string, bool) {
	r := s.records[s.full(name)]
	if r == nil {
		return "", false
	}
	return string(r.value), true
}

// Put writes any value, and replaces any record of that name. With a TTL of 0
// it never expires.
func (s *Store) Put(name, value string, ttl time.Duration) error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	var t *storeTTL
	if ttl > 0 {
		t = s.grant(ttl)
	}
	s.put(s.full(name), []byte(value), t)
	return nil
}

// SetTTL puts the same value again, with another TTL. With a TTL of 0 a lease
// becomes a reservation.
func (s *Store) SetTTL(name string, ttl time.Duration) error {
	value, ok := s.Get(name)
	if !ok {
		return fmt.Errorf("set the TTL of %s: no such key", name)
	}
	return s.Put(name, value, ttl)
}

// Delete removes a name, if it exists.
func (s *Store) Delete(name string) error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	s.remove(s.full(name))
	return nil
}

// Revoke ends the TTL of a name, and with it the record.
func (s *Store) Revoke(name string) error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("revoke %s: %w", name, err)
	}
	r := s.records[s.full(name)]
	if r == nil || r.ttl == nil {
		return fmt.Errorf("revoke %s: no key with a TTL", name)
	}
	s.endTTL(r.ttl)
	return nil
}

// Wipe removes all subnets, reservations included, in one revision.
func (s *Store) Wipe() error {
	if err := s.Unavailable(); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	var keys []string
	for _, key := range s.order {
		if strings.HasPrefix(key, s.full("subnets/")) {
			keys = append(keys, key)
		}
	}
	s.remove(keys...)
	return nil
}

// Compact forgets the history up to now. A stream that has not delivered all of
// it ends, because the server no longer has the next changes.
func (s *Store) Compact() {
	s.compacted = s.revision
	s.world.Note("store: compact", fmt.Sprintf("rev %d", s.revision))
	for _, st := range s.streams {
		if st.dirty {
			s.endStream(st)
			st.end(errStoreCompacted)
		}
	}
}

// LoseData leaves an empty store that counts its revisions from one, as after
// the loss of its disk.
func (s *Store) LoseData() {
	s.world.Note("store: data lost", "")
	s.breakStreams(errStoreBroken)
	s.epoch++
	lost := s.records
	order := s.order
	s.clear()
	for _, key := range order {
		s.tell(key, lost[key], nil)
	}
}
