package store

import (
	"strings"

	"github.com/flanneld/flannel/core/lease"
)

// Write is a change of one record below the subnets.
type Write struct {
	Client   string // "" for an operator and for the end of a TTL
	Expired  bool   // by the end of a TTL
	Key      string // the last part of the store's key
	Old, New *Record
}

// Record is a record of the store, present or former.
type Record struct {
	Value    string
	Lease    lease.Lease // meaningful if Flaw is empty
	Flaw     string      // why the value is no lease
	Expiring bool        // it has a TTL
}

// OnWrite passes every change of a record below the subnets, and of the config
// under the key "config", to fn after it was made; nil ends it. The function
// must not change the world.
func (s *Store) OnWrite(fn func(Write)) { s.written = fn }

// by runs fn on behalf of a client.
func (s *Store) by(client string, fn func()) {
	s.writer = client
	fn()
	s.writer = ""
}

// tell reports a change to the listener.
func (s *Store) tell(key string, old, now *record) {
	name, subnet := strings.CutPrefix(key, s.full("subnets/"))
	if key == s.configKey() {
		name = "config"
	} else if !subnet {
		return
	}
	if s.written != nil {
		s.written(Write{Client: s.writer, Expired: s.expiring, Key: name, Old: old.told(), New: now.told()})
	}
}

func (r *record) told() *Record {
	if r == nil {
		return nil
	}
	return &Record{Value: string(r.value), Lease: r.lease, Flaw: r.flaw, Expiring: r.ttl != nil}
}
