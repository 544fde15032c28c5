package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/netconfig"
)

// Target is the datastore of today. Both methods create a key or fail with an error
// that wraps [lease.ErrConflict], if revision and ModRevision are 0.
type Target interface {
	SetConfig(ctx context.Context, data []byte, revision int64) error
	PutRecord(ctx context.Context, l lease.Lease, ttl time.Duration) error
}

// Run copies the records into a store with this snapshot, each on its own: one that
// fails stops no other. In a dry run it only says what it would do.
func Run(ctx context.Context, records Records, snap *lease.Snapshot, into Target, dry bool) *Result {
	m := migration{ctx: ctx, snap: *snap, into: into, dry: dry, began: time.Now()}
	m.config(records.Config)
	seen := map[lease.Key]bool{}
	for _, record := range records.Subnets {
		if key, err := lease.ParseKey(path.Base(record.Key)); err == nil {
			seen[key] = true
		}
		m.subnet(record)
	}
	for _, l := range snap.Leases {
		if !seen[l.Key] {
			m.note(l.Key.String(), OnlyNew, "of "+netconfig.OwnerOf(l.Attrs))
		}
	}
	return &m.result
}

// migration is one run.
type migration struct {
	ctx    context.Context
	snap   lease.Snapshot // with the records that this run has written
	into   Target
	dry    bool
	began  time.Time // just after the old store was read, from when its TTLs count
	result Result
}

func (m *migration) note(key string, outcome Outcome, detail string) {
	m.result.Keys = append(m.result.Keys, Key{Key: key, Outcome: outcome, Detail: shorten(detail)})
}

// wrote notes the outcome of a write.
func (m *migration) wrote(key, detail string, write func() error) bool {
	if m.dry {
		m.note(key, ToCreate, detail)
		return true
	}
	err := write()
	switch {
	case errors.Is(err, lease.ErrConflict) || errors.Is(err, lease.ErrLost):
		m.note(key, Differs, "another program has written it meanwhile; run this again")
	case err != nil:
		m.note(key, Failed, err.Error())
	default:
		m.note(key, Created, detail)
	}
	return err == nil
}

func (m *migration) config(old *Record) {
	const key = "config"
	switch {
	case old == nil:
		m.note(key, Invalid, "the old store has no network config")
	case bytes.Equal(old.Value, m.snap.Config.Data):
		m.note(key, Same, "")
	case m.snap.Config.Revision != 0:
		m.note(key, Differs, "the new store has another one: compare it with flannelctl config get")
	default:
		if _, _, err := node.CheckConfig(old.Value, false); err != nil {
			m.note(key, Invalid, err.Error())
			return
		}
		m.wrote(key, "", func() error { return m.into.SetConfig(m.ctx, old.Value, 0) })
	}
}

func (m *migration) subnet(old Record) {
	name := path.Base(old.Key)
	key, err := lease.ParseKey(name)
	if err == nil && key.String() != name {
		err = fmt.Errorf("the key is not in its usual form, %s", key)
	}
	var attrs lease.Attrs
	if err == nil {
		attrs, err = lease.DecodeAttrs(old.Value)
	}
	if err != nil {
		m.note(shorten(name), Invalid, err.Error())
		return
	}
	for _, l := range m.snap.Leases {
		if l.Key == key {
			m.compare(name, l, attrs, old.Forever)
			return
		}
	}
	left := old.TTL - time.Since(m.began)
	switch {
	case !old.Forever && old.TTL > maxTTL:
		m.note(name, Invalid, "its TTL is longer than a year")
	case !old.Forever && left < time.Second:
		m.note(name, Expired, "")
	case !alloc.Free(&m.snap, key):
		m.note(name, Differs, "it overlaps another record of the new store")
	default:
		m.create(lease.Lease{Key: key, Attrs: attrs}, old.Forever, left)
	}
}

// create writes a new record with the time that is left.
func (m *migration) create(l lease.Lease, forever bool, left time.Duration) {
	left = left.Truncate(time.Second)
	detail := fmt.Sprintf("of %s, expires in %s", netconfig.OwnerOf(l.Attrs), left)
	if forever {
		left, detail = 0, fmt.Sprintf("of %s, reserved", netconfig.OwnerOf(l.Attrs))
	}
	if m.wrote(l.Key.String(), detail, func() error { return m.into.PutRecord(m.ctx, l, left) }) {
		m.snap.Leases = append(m.snap.Leases[:len(m.snap.Leases):len(m.snap.Leases)], &l)
	}
}

// compare notes how a record of the new store differs. It changes neither.
func (m *migration) compare(name string, now *lease.Lease, old lease.Attrs, reserved bool) {
	was, is := netconfig.OwnerOf(old), netconfig.OwnerOf(now.Attrs)
	switch {
	case was != is:
		m.note(name, Differs, fmt.Sprintf("its owner is %s in the old store and %s in the new one", was, is))
	case !old.Equal(now.Attrs):
		m.note(name, Differs, "its owner, "+is+", has written another value into the new store")
	case reserved != now.Reserved():
		m.note(name, Differs, "it is reserved in one store only")
	default:
		m.note(name, Same, "of "+is)
	}
}
