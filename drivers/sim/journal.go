package sim

import (
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// journalled is how many objects a journal names at most.
const journalled = 64

// journal names the objects that the last plans were about, so that a look at
// thousands can be confined to the few that may have changed. Whatever else
// changes a host moves its generation too, and ends the journal.
type journal struct {
	from, to uint64 // the generations between which it is complete
	entries  []journalEntry
}

type journalEntry struct {
	after  uint64 // the generation that was the host's before
	object dataplane.Object
}

// note takes a plan that was applied to a host of one generation and made it
// another. To make room it forgets the oldest plans.
func (j *journal) note(before, after uint64, ops []dataplane.Op) {
	if j.to != before {
		*j = journal{from: before, entries: j.entries[:0]}
	}
	j.to = after
	if len(ops) > journalled || slices.ContainsFunc(ops, unjournalled) {
		*j = journal{from: after, to: after, entries: j.entries[:0]}
		return
	}
	for _, op := range ops {
		j.entries = append(j.entries, journalEntry{before, op.Object})
	}
	if over := len(j.entries) - journalled; over > 0 {
		oldest := j.entries[over-1].after
		j.entries = slices.DeleteFunc(j.entries, func(e journalEntry) bool { return e.after <= oldest })
		j.from = oldest + 1
	}
}

// unjournalled reports whether an op may change more than the object it names.
func unjournalled(op dataplane.Op) bool {
	switch op.Object.(type) {
	case dataplane.Route, dataplane.Neigh, dataplane.FDBEntry:
		return false
	}
	return true
}

// since names what may have changed since a generation; nil: perhaps anything.
func (j *journal) since(known, now uint64) *dataplane.Keys {
	if known < j.from || j.to != now || known > now {
		return nil
	}
	k := dataplane.NewKeys()
	for _, e := range j.entries {
		if e.after < known {
			continue
		}
		switch o := e.object.(type) {
		case dataplane.Route:
			k.Routes[readBack(o.RouteKey)] = struct{}{}
		case dataplane.Neigh:
			k.Neighs[o.NeighKey] = struct{}{}
		case dataplane.FDBEntry:
			k.FDB[o.FDBKey] = struct{}{}
		}
	}
	return k
}

// observeOnly is observe for the objects named.
func (s *stack) observeOnly(state *dataplane.State, extent dataplane.Extent, keys *dataplane.Keys) {
	for k := range keys.Neighs {
		if l := s.link(k.Link); l != nil && slices.Contains(extent.Links, k.Link) {
			if n, ok := l.neighs.get(k.IP); ok {
				l.observeNeigh(state, k.IP, n)
			}
		}
	}
	for k := range keys.FDB {
		if l := s.link(k.Link); l != nil && slices.Contains(extent.Links, k.Link) {
			if e, ok := l.fdb.get(k.MAC); ok {
				l.observeFDB(state, k.MAC, e)
			}
		}
	}
	for k := range keys.Routes {
		s.fibs[cidr.FamilyOf(k.Dst.Addr())].observeKey(state, extent, k)
	}
}

func (f *fib) observeKey(state *dataplane.State, extent dataplane.Extent, k dataplane.RouteKey) {
	part := dataplane.State{Routes: map[dataplane.RouteKey]dataplane.Route{}}
	f.observeAt(&part, k.Dst, extent)
	if r, ok := part.Routes[k]; ok {
		state.AddRoute(r)
	}
}

// readBack is the key under which a route that was put under another is read.
func readBack(k dataplane.RouteKey) dataplane.RouteKey {
	k.Dst = k.Dst.Masked()
	if cidr.FamilyOf(k.Dst.Addr()) == cidr.V6 && k.Metric == metricDefault6 {
		k.Metric = 0
	}
	return k
}
