package etcd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unique"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flanneld/flannel/core/lease"
)

// table holds all records below the subnets, good and bad, in order, so that
// one walk makes a snapshot. Unlike snapshots it changes, so it stays inside
// the store.
type table struct {
	dir     string
	history uint64 // the cluster's id
	// revision is the revision of the list or of the last event of a lease. A
	// message's own revision is useless: while a watch catches up, it is ahead
	// of the events.
	revision int64
	// config comes through a watch of its own, which may be ahead of the one for
	// the leases, or behind it. So it also has a revision of its own.
	config         lease.Document
	configRevision int64

	records []*record // in the order of compare
	byRaw   map[string]*record
}

// record is one key of the store.
type record struct {
	raw  string // the store's full key
	name string // its subnet in canonical spelling; raw if it has none
	// lease is the last good value under the key. The key and the revision of
	// creation are set even if there was none.
	lease    lease.Lease
	good     bool   // there has been a good value
	bad      string // the error of the present value
	modified int64  // the revision of the present value, good or bad
	reported bool   // the quarantine was reported
}

// listed is the result of a list.
type listed struct {
	history        uint64
	revision       int64
	config, leases []*mvccpb.KeyValue
}

// newTable returns a table with the result of a list. From the former table it takes
// the last good values of keys whose present value does not decode.
func newTable(dir string, l listed, before *table) *table {
	t := &table{
		dir: dir, history: l.history, revision: l.revision, configRevision: l.revision,
		records: make([]*record, 0, len(l.leases)),
		byRaw:   make(map[string]*record, len(l.leases)),
	}
	t.config.AbsentAt = l.revision
	for _, kv := range l.config {
		t.config = lease.Document{Data: kv.Value, Revision: kv.ModRevision}
	}
	for _, kv := range l.leases {
		var old *record
		// In a datastore with another history, no earlier record counts.
		if before != nil && before.history == l.history && before.revision <= l.revision {
			old = before.byRaw[string(kv.Key)]
		}
		r := t.decode(kv, old)
		t.byRaw[r.raw] = r
		t.records = append(t.records, r)
	}
	slices.SortFunc(t.records, t.compare)
	return t
}

// apply applies the events of one message. It skips known changes, so the table
// never moves backwards.
func (t *table) apply(events []*clientv3.Event) {
	seen, configSeen := t.revision, t.configRevision
	for _, e := range events {
		switch revision := e.Kv.ModRevision; {
		case strings.HasPrefix(string(e.Kv.Key), t.dir):
			if revision > seen {
				t.revision = revision
				t.applyLease(e)
			}
		case revision > configSeen:
			t.configRevision, t.config = revision, lease.Document{AbsentAt: revision, Deleted: true}
			if e.Type == clientv3.EventTypePut {
				t.config = lease.Document{Data: e.Kv.Value, Revision: revision}
			}
		}
	}
}

func (t *table) applyLease(e *clientv3.Event) {
	old := t.byRaw[string(e.Kv.Key)]
	if e.Type == clientv3.EventTypeDelete {
		if old != nil {
			delete(t.byRaw, old.raw)
			i, _ := slices.BinarySearchFunc(t.records, old, t.compare)
			t.records = slices.Delete(t.records, i, i+1)
		}
		return
	}
	r := t.decode(e.Kv, old)
	t.byRaw[r.raw] = r
	i, found := slices.BinarySearchFunc(t.records, r, t.compare)
	if found {
		t.records[i] = r
	} else {
		t.records = slices.Insert(t.records, i, r)
	}
}

// decode reads a key and its value. If the new value is bad, the lease of the old
// record under the same key stands: until the key is deleted, its owner most likely
// still has its old address (interop E1: skip a bad record only).
func (t *table) decode(kv *mvccpb.KeyValue, old *record) *record {
	r := &record{raw: string(kv.Key), modified: kv.ModRevision}
	r.name = r.raw
	key, err := lease.ParseKey(r.raw)
	if err != nil {
		r.bad = err.Error()
	} else {
		r.name = r.raw[len(t.dir):]
		if r.name != key.String() {
			r.name = key.String()
		}
	}
	r.lease.Key, r.lease.CreateRevision = key, kv.CreateRevision

	if err == nil {
		attrs, err := lease.DecodeAttrs(kv.Value)
		if err != nil {
			r.bad = err.Error()
		} else {
			attrs.BackendType = unique.Make(attrs.BackendType).Value() // one copy for all records
			r.lease.Attrs = attrs
			r.lease.ModRevision = kv.ModRevision
			r.lease.ID = kv.Lease // none: a reservation (interop E4: no TTL)
			r.good = true
		}
	}
	if old != nil && old.lease.CreateRevision == kv.CreateRevision {
		if !r.good && old.good {
			r.lease, r.good = old.lease, true
		}
		r.reported = old.reported && old.modified == r.modified
	}
	return r
}

// compare orders by subnet. Of the keys of one subnet the canonical one comes
// first, and the first one counts.
func (t *table) compare(a, b *record) int {
	return cmp.Or(
		strings.Compare(a.name, b.name),
		-compareBool(t.canonical(a), t.canonical(b)),
		strings.Compare(a.raw, b.raw),
	)
}

func (t *table) canonical(r *record) bool {
	return len(r.raw) == len(t.dir)+len(r.name) && r.raw[len(t.dir):] == r.name
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// snapshot returns the present table, and the quarantined records not reported
// before.
func (t *table) snapshot() (*lease.Snapshot, []lease.Quarantined) {
	s := &lease.Snapshot{Revision: t.revision, History: t.history, Config: t.config}
	s.Leases = make([]*lease.Lease, 0, len(t.records))
	var fresh []lease.Quarantined
	var taken *record // of the last lease taken
	for _, r := range t.records {
		reason := r.bad
		switch {
		case r.good && (taken == nil || taken.name != r.name):
			s.Leases = append(s.Leases, &r.lease)
			taken = r
		case r.good && reason == "":
			reason = fmt.Sprintf("subnet %s is recorded under %s already", r.name, taken.raw)
		}
		if reason == "" {
			continue
		}
		q := lease.Quarantined{Raw: r.raw, Key: r.lease.Key, Reason: reason}
		if r == taken {
			q.OverwroteAt = r.modified
		}
		s.Quarantined = append(s.Quarantined, q)
		if !r.reported {
			r.reported = true
			fresh = append(fresh, q)
		}
	}
	slices.SortFunc(s.Quarantined, func(a, b lease.Quarantined) int { return strings.Compare(a.Raw, b.Raw) })
	return s, fresh
}

// newest returns the last changed key and its revision; without records a key
// that no record has, and 0.
func (t *table) newest() (raw string, modified int64) {
	raw = t.dir
	for _, r := range t.records {
		if r.modified > modified {
			raw, modified = r.raw, r.modified
		}
	}
	return raw, modified
}

// rawKey returns the store's key of a lease. It is the canonical one unless
// another writer has spelt the key differently, which the grammar allows.
func (t *table) rawKey(l lease.Lease) string {
	name := l.Key.String()
	i, _ := slices.BinarySearchFunc(t.records, name, func(r *record, name string) int {
		return strings.Compare(r.name, name)
	})
	for ; i < len(t.records) && t.records[i].name == name; i++ {
		if r := t.records[i]; r.lease.CreateRevision == l.CreateRevision {
			return r.raw
		}
	}
	return t.dir + name
}
