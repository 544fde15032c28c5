package kernel

import (
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// lookMemory holds what a driver's last look returned, for looks that read few objects again. As
// in drivers/linux, such a look reads everything if the kernel has announced another change.
// Where hints are lost it does not show what has changed elsewhere.
type lookMemory struct {
	state   *dataplane.State // nil: none
	extent  dataplane.Extent
	links   []driver.Link
	told    uint64             // the host's count of announcements, with the driver's own
	changed uint64             // the host's count of changes, with the driver's own
	again   []dataplane.Object // that the driver has changed since
}

// follow notes the driver's own changes.
func (m *lookMemory) follow(ops []dataplane.Op) {
	if len(m.again)+len(ops) > fewOps {
		*m = lookMemory{}
		return
	}
	for _, op := range ops {
		m.again = append(m.again, op.Object)
	}
	m.changed++
}

// misses reports whether a look at few objects does not show the truth: something has changed
// that neither an announcement nor the links and addresses reveal.
func (m *lookMemory) misses(h *Host, truth *dataplane.State, extent dataplane.Extent, links []driver.Link) bool {
	return m.state != nil &&
		m.changed != h.changed &&
		m.told == h.told &&
		m.extent.Equal(extent) &&
		maps.Equal(m.state.Links, truth.Links) &&
		slices.EqualFunc(m.links, links, driver.Link.Equal)
}

// remembered returns what a look shows of a host, and remembers it. Again is the extent's.
func (d *hostDriver) remembered(
	truth *dataplane.State, extent dataplane.Extent, again []dataplane.Object,
) *dataplane.State {
	m, state := &d.memory, truth
	changed := d.h.changed
	links := d.h.Facts(extent.Reach...).Links
	if again != nil && len(m.again)+len(again) <= fewOps && m.misses(d.h, truth, extent, links) {
		state = d.h.stack.observeFew(truth, m.state, extent, slices.Concat(m.again, again))
		changed = m.changed
		if state.Equal(m.state) {
			state = m.state
		}
	}
	*m = lookMemory{state: state, extent: extent, links: links, told: d.h.told, changed: changed}
	return state
}

// observeFew returns a state whose peers' objects are those of the last look, except a few.
func (s *stack) observeFew(
	truth, last *dataplane.State, extent dataplane.Extent, few []dataplane.Object,
) *dataplane.State {
	state := *truth
	state.Routes, state.NextHops = last.Routes, last.NextHops
	state.Neighs, state.FDB = last.Neighs, last.FDB
	ops := make([]dataplane.Op, len(few))
	for i, o := range few {
		ops[i].Object = o
	}
	return s.observeAgain(&state, extent, ops)
}
