package transition

import (
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// Change describes a change of the cluster's backend that is under way on this node.
type Change struct {
	To     string     `json:"To"` // the identity of the present backend, such as {"Type":"host-gw"}
	Former []Previous `json:"Former"`
}

// Previous is a previous backend that the node keeps.
type Previous struct {
	From        string      `json:"From"`        // its identity
	Until       *time.Time  `json:"Until"`       // when it ends by itself; null: not before the operator ends it
	By          string      `json:"By"`          // "config" or "memory": what names it
	Sends       []lease.Key `json:"Sends"`       // the peers that this node reaches by it
	NotFollowed []lease.Key `json:"NotFollowed"` // the peers whose records do not offer the present backend
}

// Change describes the change under way, or returns nil.
func (m *Machine) Change(now time.Time, r Records) *Change {
	if !m.Changing() || r.Snapshot == nil {
		return nil
	}
	c, behind := &Change{To: m.set.Present()}, m.behind(r)
	for _, use := range m.Uses(r) {
		p := Previous{From: use.ID, By: "memory", Sends: use.Sends, NotFollowed: behind}
		if m.isNamed(use.ID) {
			p.By = "config"
		}
		at, _ := m.until(now, use.ID)
		if silent, ends := m.moments.silent[use.ID]; ends {
			at = silent.Add(Linger)
		}
		if !at.IsZero() {
			p.Until = &at
		}
		c.Former = append(c.Former, p)
	}
	return c
}

// behind returns the peers whose records do not offer the present backend.
func (m *Machine) behind(r Records) (keys []lease.Key) {
	if r.Snapshot == nil {
		return nil
	}
	for _, p := range r.Source.Peers() {
		if !m.set.Follows(p) {
			keys = append(keys, p.Key)
		}
	}
	return keys
}

// use holds the uses of the previous backends, and their inputs.
type use struct {
	set  *backends.Set
	snap *lease.Snapshot
	lost []*lease.Lease
	want *dataplane.State // the last rendering: what the backends refuse depends on the host
	of   []backends.Use

	guards [2][]firewall.Guard
}

// Uses returns the uses of the previous backends by the peers that are served.
func (m *Machine) Uses(r Records) []backends.Use { return m.usedWith(r).of }

// usedWith returns the uses of the previous backends, computed again only if an input has changed.
func (m *Machine) usedWith(r Records) *use {
	u := &m.use
	if u.set != m.set || u.snap != r.Snapshot || u.want != r.Want || !slices.Equal(u.lost, r.Lost) {
		*u = use{set: m.set, snap: r.Snapshot, lost: r.Lost, want: r.Want}
		if m.Changing() {
			peers := r.Source.Peers()
			u.of, u.guards = m.set.Uses(r.Source.Env(), r.Source.Self(), peers), m.set.Guards(peers)
		}
	}
	return u
}
