package remote

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/remote/api"
)

// table is the content of the datastore after one frame. It is immutable.
type table struct {
	state    string // of the frame
	entries  []entry
	snapshot *lease.Snapshot
}

// entry is one lease.
type entry struct {
	name  string // the key's text, by which entries are sorted
	lease *lease.Lease
	// kept means that the server knows no good record under the key, and this is
	// the last one that the store has seen. The entry ends when the key leaves
	// quarantine.
	kept bool
}

// errNoBase says that a server sent changes to a snapshot that it never sent.
var errNoBase = errors.New("the server sent changes before a snapshot")

// after returns the table that a frame turns t into; t is nil before the first.
func (t *table) after(f api.Frame) (*table, error) {
	if t == nil {
		if !f.Whole {
			return nil, errNoBase
		}
		t = &table{snapshot: &lease.Snapshot{}}
	}
	snap := &lease.Snapshot{
		Revision: f.Revision, History: f.History, Config: t.snapshot.Config, Quarantined: t.undecided(f),
	}
	if f.Config != nil {
		snap.Config = lease.Document{
			Revision: f.Config.Revision, AbsentAt: f.Config.AbsentAt, Deleted: f.Config.Deleted,
		}
		if f.Config.Revision != 0 {
			snap.Config.Data = f.Config.Data
		}
	}
	if f.Quarantined != nil {
		snap.Quarantined = nil
		for _, q := range *f.Quarantined {
			snap.Quarantined = append(snap.Quarantined, q.Lease())
		}
	}
	next := &table{state: f.State, snapshot: snap}
	changed, bad := t.decode(f.Leases)
	snap.Quarantined = append(snap.Quarantined, bad...)
	next.entries = t.merge(f, changed)
	next.keep(t, f)
	slices.SortFunc(snap.Quarantined, func(a, b lease.Quarantined) int { return strings.Compare(a.Raw, b.Raw) })
	snap.Leases = make([]*lease.Lease, 0, len(next.entries))
	for _, e := range next.entries {
		snap.Leases = append(snap.Leases, e.lease)
	}
	return next, nil
}

// undecided returns the quarantined records that the frame does not mention.
func (t *table) undecided(f api.Frame) []lease.Quarantined {
	if f.Whole {
		return nil
	}
	told := map[string]bool{}
	for _, r := range f.Leases {
		told[r.Key] = true
	}
	for _, name := range f.Removed {
		told[name] = true
	}
	return slices.DeleteFunc(slices.Clone(t.snapshot.Quarantined), func(q lease.Quarantined) bool { return told[q.Raw] })
}

// decode returns the entries of the records, sorted, and the records that do not
// decode. An unchanged lease keeps its pointer.
func (t *table) decode(records []api.Record) (good []entry, bad []lease.Quarantined) {
	for _, r := range records {
		l, err := r.Lease()
		if err != nil {
			q := lease.Quarantined{Raw: r.Key, Reason: err.Error()}
			q.Key, _ = lease.ParseKey(r.Key)
			bad = append(bad, q)
			continue
		}
		p := &l
		if i, found := t.find(r.Key); found && same(t.entries[i].lease, p) {
			p = t.entries[i].lease
		}
		good = append(good, entry{name: r.Key, lease: p})
	}
	slices.SortStableFunc(good, byName)
	good = slices.CompactFunc(good, func(a, b entry) bool { return a.name == b.name })
	return good, bad
}

func byName(a, b entry) int { return cmp.Compare(a.name, b.name) }

func same(a, b *lease.Lease) bool {
	return a.CreateRevision == b.CreateRevision && a.ModRevision == b.ModRevision && a.ID == b.ID &&
		a.Attrs.Equal(b.Attrs)
}

func (t *table) find(name string) (int, bool) {
	return slices.BinarySearchFunc(t.entries, name, func(e entry, name string) int { return cmp.Compare(e.name, name) })
}

// merge returns the entries after the frame: the changed ones, and the former ones
// that the frame did not remove.
func (t *table) merge(f api.Frame, changed []entry) []entry {
	if f.Whole {
		return changed
	}
	removed := map[string]bool{}
	for _, name := range f.Removed {
		removed[name] = true
	}
	merged := make([]entry, 0, len(t.entries)+len(changed))
	for _, e := range t.entries {
		for len(changed) > 0 && changed[0].name < e.name {
			merged, changed = append(merged, changed[0]), changed[1:]
		}
		switch {
		case len(changed) > 0 && changed[0].name == e.name:
			merged, changed = append(merged, changed[0]), changed[1:]
		case !removed[e.name]:
			merged = append(merged, e)
		}
	}
	return append(merged, changed...)
}

// keep carries the last good record under a key in quarantine over to a server
// that has never seen it, and drops it when the key leaves quarantine: only a
// delete removes a peer.
func (t *table) keep(before *table, f api.Frame) {
	blocked := map[string]int{}
	for i, q := range t.snapshot.Quarantined {
		if q.Key.IsValid() {
			blocked[q.Key.String()] = i
		}
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool {
		_, still := blocked[e.name]
		return e.kept && !still
	})
	if !f.Whole || before.snapshot.History != f.History || before.snapshot.Revision > f.Revision {
		return
	}
	for name, at := range blocked {
		i, known := before.find(name)
		if _, there := t.find(name); there || !known {
			continue
		}
		e := before.entries[i]
		e.kept = true
		t.snapshot.Quarantined[at].OverwroteAt = cmp.Or(t.snapshot.Quarantined[at].OverwroteAt, f.Revision)
		j, _ := t.find(name)
		t.entries = slices.Insert(t.entries, j, e)
	}
}
