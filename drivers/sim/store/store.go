package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Options fix how a store behaves. Zero values select the defaults.
type Options struct {
	Prefix  string        // default /coreos.com/network
	Latency time.Duration // typical one-way delay between a client and the server; default 1 ms
	Timeout time.Duration // for an answer, until the client gives up; default 5 s
	Nodes   string        // the network config of a Kubernetes cluster: leases are on node objects; "": they are records
	Ping    time.Duration // interval of a client's checks of its stream; default 10 s
	History uint64        // identifies the etcd to its clients; 0: it does not say, nor since when there is no config
	Beside  *Store        // a store whose etcd also holds this one, below another prefix: they count revisions together
}

// Store is the lease datastore of a world. It behaves like etcd: keys with raw
// bytes as values, one revision for each change, TTLs in virtual time that
// delete their keys, compaction, and a stream of changes to each client.
//
// Its methods are an operator's commands and faults; they act at once. Nodes
// use a [Client].
type Store struct {
	world *world.World
	opts  Options

	counter   *int64 // of the revisions of the etcd
	revision  int64
	compacted int64 // no stream can begin before this revision
	epoch     int   // number of times that data were lost or restored
	records   map[string]*record
	order     []string // the keys of records, sorted
	ttls      map[int64]*storeTTL
	lastTTL   int64
	backup    *backup // nil: none was made

	version *storeVersion // made from the records
	made    int64         // counts the versions
	former  *storeVersion // the one before, for stale reads
	streams []*storeStream
	clients []*Client
	servers []*Server

	size    int64 // of all keys and values, in bytes
	changes int64 // the sizes of all changes so far
	served  Served

	nodes       *nodeStore // nil: leases are records
	nodeWritten func(NodeWrite)
	configs     int64 // counts the changes of Options.Nodes

	written  func(Write)
	writer   string // the client whose request the server is serving
	expiring bool   // a TTL is expiring

	stopped    bool
	leaderless bool
	election   *world.Event    // the next leader's
	denied     map[string]bool // clients without permission
	faults     Faults
}

// New adds an empty datastore.
func New(w *world.World, opts Options) *Store {
	opts.Prefix = cmp.Or(opts.Prefix, "/coreos.com/network")
	opts.Latency = cmp.Or(opts.Latency, time.Millisecond)
	opts.Timeout = cmp.Or(opts.Timeout, 5*time.Second)
	opts.Ping = cmp.Or(opts.Ping, 10*time.Second)
	s := &Store{world: w, opts: opts, denied: map[string]bool{}, counter: new(int64)}
	if opts.Beside != nil {
		s.counter = opts.Beside.counter
	}
	s.clear()
	return s
}

// Served counts the reads of clients, in bytes of keys and values. Node objects
// do not count.
type Served struct {
	Lists int // of everything
	Bytes int64
}

// Served returns the reads of clients so far.
func (s *Store) Served() Served { return s.served }

// clear empties the store, as a new etcd is empty.
func (s *Store) clear() {
	s.holdTTLs()
	s.revision, s.compacted = 1, 0
	if s.opts.Beside == nil {
		*s.counter = 1
	}
	s.size, s.changes = 0, 0
	s.records = map[string]*record{}
	s.order = nil
	s.ttls = map[int64]*storeTTL{}
	s.version = &storeVersion{epoch: s.epoch, snap: &lease.Snapshot{Revision: s.revision}}
	s.former = s.version
	s.clearNodes()
}

// Snapshot returns the truth: the present content of the store.
func (s *Store) Snapshot() *lease.Snapshot { return s.version.snap }

// Revision returns the number of the last change.
func (s *Store) Revision() int64 { return s.revision }

// Dump returns all records in a canonical form, one a line.
func (s *Store) Dump() string {
	var b strings.Builder
	for _, key := range s.order {
		r := s.records[key]
		fmt.Fprintf(&b, "%s create=%d mod=%d", key, r.create, r.mod)
		if r.ttl != nil {
			fmt.Fprintf(&b, " ttl=%s", r.ttl.length)
		}
		fmt.Fprintf(&b, " %s\n", r.value)
	}
	return b.String()
}

// full returns the store's key for a name below the prefix.
func (s *Store) full(name string) string { return s.opts.Prefix + "/" + name }

func (s *Store) configKey() string { return s.full("config") }

func (s *Store) subnetKey(k lease.Key) string { return s.full("subnets/" + k.String()) }

// count begins the next revision.
func (s *Store) count() {
	*s.counter++
	s.revision = *s.counter
}

// put writes one record in a revision of its own.
func (s *Store) put(key string, value []byte, ttl *storeTTL) *record {
	s.count()
	r, old := s.enter(key, value, ttl)
	s.publish(key)
	s.tell(key, old, r)
	return r
}

// remove deletes those of the keys that exist, in one revision.
func (s *Store) remove(keys ...string) {
	keys = slices.DeleteFunc(keys, func(k string) bool { return s.records[k] == nil })
	if len(keys) == 0 {
		return
	}
	s.count()
	removed := s.takeOut(keys...)
	s.publish(keys...)
	for _, r := range removed {
		s.tell(r.key, r, nil)
	}
}

// replace deletes a key and puts another, which must be free, in one revision.
func (s *Store) replace(from, to string, value []byte, ttl *storeTTL) *record {
	s.count()
	removed := s.takeOut(from)
	r, _ := s.enter(to, value, ttl)
	s.publish(from, to)
	s.tell(from, removed[0], nil)
	s.tell(to, nil, r)
	return r
}

// enter writes a record at the present revision, and returns it with its
// predecessor.
func (s *Store) enter(key string, value []byte, ttl *storeTTL) (r, old *record) {
	r = &record{key: key, value: value, create: s.revision, mod: s.revision, ttl: ttl}
	s.changes += r.size()
	s.size += r.size()
	old = s.records[key]
	if old != nil {
		s.size -= old.size()
		r.create = old.create
		old.ttl.detach(key)
	} else {
		i, _ := slices.BinarySearch(s.order, key)
		s.order = slices.Insert(s.order, i, key)
	}
	ttl.attach(key)
	r.decode(s.full("subnets/"), old)
	s.records[key] = r
	s.world.Note("store: put", fmt.Sprintf("%s rev %d ttl %s %s", key, s.revision, ttl, value))
	return r, old
}

// takeOut deletes keys that exist, at the present revision.
func (s *Store) takeOut(keys ...string) []*record {
	removed := make([]*record, 0, len(keys))
	for _, key := range keys {
		removed = append(removed, s.records[key])
		s.size -= s.records[key].size()
		s.changes += int64(len(key))
		s.records[key].ttl.detach(key)
		delete(s.records, key)
		s.world.Note("store: delete", fmt.Sprintf("%s rev %d", key, s.revision))
	}
	s.order = slices.DeleteFunc(s.order, func(k string) bool { return s.records[k] == nil })
	return removed
}

// publish makes the version that follows a change of the keys, and tells all
// clients. Only keys below the subnets move a snapshot's revision; a key that
// is neither there nor the config moves nothing.
func (s *Store) publish(keys ...string) {
	if s.nodes != nil {
		return // only the nodes matter
	}
	revision, seen := s.version.snap.Revision, false
	for _, key := range keys {
		if strings.HasPrefix(key, s.full("subnets/")) {
			revision, seen = s.revision, true
		}
		seen = seen || key == s.configKey()
	}
	if !seen {
		return
	}
	s.former, s.version = s.version, s.newVersion(revision)
	for _, st := range s.streams {
		st.dirty = true
		st.pump()
	}
}
