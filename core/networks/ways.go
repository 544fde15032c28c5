package networks

import (
	"encoding/json"
	"slices"

	"github.com/flanneld/flannel/core/backend/ways"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// A record names the backends by which its node receives packets, present and former. A node that begins opens
// those that its own record names, and in a change of the backend those without which it cannot reach peers.
// It does not know that another network of the host may have taken their devices. So its snapshot shows no
// such backend, and says that there is one: the node may find it in its own record, which is to be written anew.

// shown is a snapshot as the node of a network sees it.
type shown struct {
	of       *lease.Snapshot // as the datastore holds it
	decision int             // the one by which it was made
	snap     *lease.Snapshot
	leases   map[*lease.Lease]*lease.Lease // each record, as the node sees it
}

// noWay is an identity that no backend has.
var noWay = json.RawMessage(`{}`)

// shows returns a snapshot as the node of a network sees it.
func (h *Host) shows(name string, s *lease.Snapshot) *lease.Snapshot {
	m := h.members[name]
	if len(h.members) == 1 {
		return s
	}
	was := m.shown
	if was.of == s && was.decision == h.decisions {
		return was.snap
	}
	if was.decision != h.decisions {
		was.leases = nil
	}
	now := shown{of: s, decision: h.decisions, snap: s, leases: map[*lease.Lease]*lease.Lease{}}
	leases, isTaken := make([]*lease.Lease, 0, len(s.Leases)), h.taken(m)
	for _, l := range s.Leases {
		seen := was.leases[l]
		if seen == nil {
			seen = showsRecord(l, isTaken)
		}
		now.leases[l] = seen
		leases = append(leases, seen)
	}
	if !slices.Equal(leases, s.Leases) {
		other := *s
		other.Leases = leases
		now.snap = &other
	}
	if was.of == s && slices.EqualFunc(was.snap.Leases, leases, sameRecord) {
		now.snap = was.snap // a node takes another snapshot for news
	}
	m.shown = now
	return now.snap
}

func sameRecord(a, b *lease.Lease) bool { return a == b || a.Attrs.Equal(b.Attrs) }

// showsRecord returns a record without the backends that are taken.
func showsRecord(l *lease.Lease, isTaken func(config.Backend) bool) *lease.Lease {
	if !slices.ContainsFunc(ways.Named(&l.Attrs), isTaken) {
		return l
	}
	namesTaken := func(w lease.Ways) bool {
		a := l.Attrs
		a.Ways = w
		return slices.ContainsFunc(ways.Named(&a), isTaken)
	}
	free := lease.Ways{Present: l.Attrs.Ways.Present, Hidden: true}
	if namesTaken(free) {
		free.Present = noWay
	}
	for _, f := range l.Attrs.Ways.Former {
		if !namesTaken(lease.Ways{Present: noWay, Former: []lease.FormerWay{f}}) {
			free.Former = append(free.Former, f)
		}
	}
	other := *l
	other.Attrs.Ways = free
	return &other
}

// taken returns a function that reports whether another network of the host has the devices or ports that a
// member needs for a backend, and the member itself has not.
func (h *Host) taken(m *member) func(config.Backend) bool {
	known := map[string]bool{}
	network, err := config.Parse(m.doc.Data)
	return func(object config.Backend) bool {
		id := string(object.Options)
		is, asked := known[id]
		if !asked && err == nil {
			network.Backend = object
			is = h.isTaken(m, network)
			known[id] = is
		}
		return is
	}
}

// isTaken reports whether another network has the devices or ports of a config, and the member itself has not.
func (h *Host) isTaken(m *member, network config.Network) bool {
	needs, err := claimFor(network)
	if err != nil {
		return false
	}
	needs.prefixes = nil
	has := func(o *member) bool {
		return needs.against(o.held) != "" || o.claim != nil && needs.against(*o.claim) != ""
	}
	if has(m) {
		return false
	}
	for _, o := range h.members {
		if has(o) {
			return true
		}
	}
	return false
}
