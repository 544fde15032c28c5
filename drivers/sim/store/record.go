package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/lease"
)

// record is one key with its value, and its meaning to a reader. It never
// changes once it is written.
type record struct {
	key    string
	value  []byte
	create int64
	mod    int64
	ttl    *storeTTL // nil: the record never expires

	subnet bool        // the key lies below the subnets
	name   string      // of the subnet in canonical spelling, or else the key's own
	odd    int         // 1: the key spells the subnet in another way, which the grammar allows; 0: canonically
	lease  lease.Lease // the last good value under the key; without one, only Key may be set
	good   bool        // there has been a good value
	flaw   string      // why the present value is no lease
	since  int64       // the revision that brought the flaw
}

// size returns the bytes of the record on the way to a client.
func (r *record) size() int64 { return int64(len(r.key) + len(r.value)) }

// decode reads the record once for all its readers. The good value of the former
// record, old, stands until another good one takes its place.
func (r *record) decode(subnets string, old *record) {
	r.name, r.subnet = strings.CutPrefix(r.key, subnets)
	if !r.subnet {
		return
	}
	key, err := lease.ParseKey(r.key)
	if err == nil {
		if r.name != key.String() {
			r.name, r.odd = key.String(), 1
		}
		r.lease.Key = key
		r.lease.Attrs, err = lease.DecodeAttrs(r.value)
	}
	if err == nil {
		r.lease.CreateRevision = r.create
		r.lease.ModRevision = r.mod
		r.lease.ID = r.ttl.handle()
		r.good = true
		return
	}
	r.flaw, r.since = err.Error(), r.mod
	if old != nil {
		r.lease, r.good = old.lease, old.good
		if old.flaw != "" {
			r.since = old.since
		}
	}
}

// storeVersion is the store at a revision.
type storeVersion struct {
	epoch   int
	number  int64 // of the store's versions
	size    int64 // of all keys and values
	written int64 // the sizes of all changes up to here
	snap    *lease.Snapshot
	nodes   []nodeObject        // sorted by name; of a store of nodes
	past    map[lease.Key]int64 // leases that stand in for a flaw, and the flaw's revision
}

// newVersion combines all records into a version.
func (s *Store) newVersion(revision int64) *storeVersion {
	s.made++
	v := &storeVersion{epoch: s.epoch, number: s.made, size: s.size, written: s.changes}
	v.snap = &lease.Snapshot{Revision: revision, Leases: make([]*lease.Lease, 0, len(s.order))}
	if r := s.records[s.configKey()]; r != nil {
		v.snap.Config = lease.Document{Data: r.value, Revision: r.mod}
	} else if s.opts.History != 0 {
		v.snap.Config.AbsentAt = s.revision
	}
	v.snap.History = s.opts.History
	taken := ""
	for _, r := range s.byName() {
		flaw := r.flaw
		switch {
		case r.good && r.name == taken:
			if flaw == "" {
				flaw = fmt.Sprintf("subnet %s is recorded under another spelling already", r.name)
			}
		case r.good:
			v.snap.Leases = append(v.snap.Leases, &r.lease)
			taken = r.name
			if flaw != "" {
				v.standIn(r)
			}
		}
		if flaw != "" {
			q := lease.Quarantined{Raw: r.key, Key: r.lease.Key, Reason: flaw}
			if r.good && r.flaw != "" && r.name == taken {
				q.OverwroteAt = r.mod
			}
			v.snap.Quarantined = append(v.snap.Quarantined, q)
		}
	}
	slices.SortFunc(v.snap.Quarantined, func(a, b lease.Quarantined) int { return strings.Compare(a.Raw, b.Raw) })
	return v
}

// byName returns the records below the subnets by the name of their subnet; of
// one name, the canonical spelling first.
func (s *Store) byName() []*record {
	records := make([]*record, 0, len(s.order))
	for _, key := range s.order {
		if r := s.records[key]; r.subnet {
			records = append(records, r)
		}
	}
	order := func(a, b *record) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return a.odd - b.odd
	}
	if !slices.IsSortedFunc(records, order) {
		slices.SortStableFunc(records, order)
	}
	return records
}

func (v *storeVersion) standIn(r *record) {
	if v.past == nil {
		v.past = map[lease.Key]int64{}
	}
	v.past[r.lease.Key] = r.since
}

// seenFrom returns the version for a reader that began at a revision: values
// hidden by a flaw at that time are unknown to it.
func (v *storeVersion) seenFrom(first int64) *lease.Snapshot {
	hidden := func(l *lease.Lease) bool {
		since, ok := v.past[l.Key]
		return ok && since <= first
	}
	if !slices.ContainsFunc(v.snap.Leases, hidden) {
		return v.snap
	}
	snap := *v.snap
	snap.Leases = slices.DeleteFunc(slices.Clone(snap.Leases), hidden)
	return &snap
}
