package kernel

import (
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// fewOps bounds how many ops a cached look follows before the host is read
// again.
const fewOps = 64

// cachedLook is the last state that a driver read from a host, and the
// conditions under which it is still valid.
type cachedLook struct {
	paths   *paths
	extent  dataplane.Extent
	changed uint64 // the host's count of changes; 0: not read yet
	state   *dataplane.State
	ops     []dataplane.Op // applied since; they concern only the objects that they name
}

func (s *cachedLook) holds(d *hostDriver, extent dataplane.Extent) bool {
	return s.changed == d.h.changed && s.paths == d.paths && s.extent.Equal(extent)
}

// follow records ops that were applied to a host, whose count of changes was
// the given one before. Any other change of the host invalidates the cache.
func (s *cachedLook) follow(changed uint64, ops []dataplane.Op) {
	if s.changed != changed || len(s.ops)+len(ops) > fewOps || slices.ContainsFunc(ops, farReaching) {
		*s = cachedLook{}
		return
	}
	s.changed++
	s.ops = append(s.ops, ops...)
}

// farReaching reports whether an op may change more than the object it names.
func farReaching(op dataplane.Op) bool {
	switch op.Object.(type) {
	case dataplane.Route, dataplane.Neigh, dataplane.FDBEntry:
		return false
	}
	return true
}

// heard reports whether a driver hears the announcement of its own op.
func heard(op dataplane.Op) bool {
	_, nextHop := op.Object.(dataplane.NextHop)
	return farReaching(op) && !nextHop
}

// observeAgain returns a copy of a state in which the objects named by ops are
// read again.
func (s *stack) observeAgain(last *dataplane.State, extent dataplane.Extent, ops []dataplane.Op) *dataplane.State {
	state := last.Clone()
	for _, op := range ops {
		switch o := op.Object.(type) {
		case dataplane.Route:
			k := readBack(o.RouteKey)
			state.Routes.Delete(k)
			s.fibs[cidr.FamilyOf(k.Dst.Addr())].observeAt(state, k.Dst, extent)
		case dataplane.NextHop:
			s.observeNextHop(state, o.ID)
			for k, r := range last.Routes.All {
				if r.NextHop == o.ID {
					state.Routes.Delete(k)
					s.fibs[cidr.V4].observeAt(state, k.Dst, extent)
				}
			}
		case dataplane.Neigh:
			state.Neighs.Delete(o.NeighKey)
			if l := s.within(o.Link, extent); l != nil {
				if n, ok := l.neighs.get(o.IP); ok {
					l.observeNeigh(state, o.IP, n)
				}
			}
		case dataplane.FDBEntry:
			state.FDB.Delete(o.FDBKey)
			if l := s.within(o.Link, extent); l != nil {
				if e, ok := l.fdb.get(o.MAC); ok {
					l.observeFDB(state, o.MAC, e)
				}
			}
		}
	}
	return state
}

// within returns the link of that name if the extent has it, or nil.
func (s *stack) within(name string, extent dataplane.Extent) *link {
	if !slices.Contains(extent.Links, name) {
		return nil
	}
	return s.link(name)
}

// readBack returns the key under which the driver reads a route that was put
// under k.
func readBack(k dataplane.RouteKey) dataplane.RouteKey {
	k.Dst = k.Dst.Masked()
	if cidr.FamilyOf(k.Dst.Addr()) == cidr.V6 && k.Metric == metricDefault6 {
		k.Metric = 0
	}
	return k
}
