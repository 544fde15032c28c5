package linux

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// rememberFor bounds how long a look may reuse routes that an earlier look read.
// It is shorter than the time between two looks without a hint, so each
// of these reads the tables.
const rememberFor = 20 * time.Second

// routeMemory holds the routes that a look has found in the main tables, for the
// looks right after it.
//
// A host may have a million routes of a routing daemon, of which hardly one
// matters. The kernel visits all of them for each dump, even for one that it
// filters, which takes 0.1 µs a route. A busy host causes two looks a second. So
// a look reads the tables only if
//   - it asks for more than the last reading,
//   - the driver has changed routes, links or addresses,
//   - the kernel announced another route that matters, or lost announcements,
//   - a link went down, lost its carrier or an address on which a route depends:
//     Linux then removes routes without announcing them, or
//   - the last reading is older than rememberFor.
type routeMemory struct {
	extent dataplane.Extent
	owned  map[int]string // the extent's links
	read   time.Time

	routes   dataplane.Table[dataplane.RouteKey, dataplane.Route]
	nextHops dataplane.Table[dataplane.NextHopID, dataplane.NextHop]
	facts    []driver.Route
	objects  nextHopObjects
	used     map[uint32]bool // the objects on which the facts depend
	links    map[int]string  // on which the routes depend, by index
}

// holds reports whether the memory answers a look.
func (m *routeMemory) holds(o *observer) bool {
	if m == nil || time.Since(m.read) > rememberFor || !m.extent.Equal(o.extent) || !maps.Equal(m.owned, o.owned) {
		return false
	}
	for index, name := range m.links {
		if o.links.byIndex[index] != name {
			return false
		}
	}
	return true
}

// readRoutes adds the routes to the facts and to the state, from memory if they
// cannot have changed.
func (o *observer) readRoutes() error {
	changed, err := o.d.hints.routesChanged()
	if err != nil {
		return err
	}
	if changed || !o.d.routes.holds(o) {
		err := o.readTables()
		if err != nil {
			return err
		}
	}
	o.state.Routes = o.d.routes.routes.Clone()
	o.state.NextHops = o.d.routes.nextHops.Clone()
	o.facts.NextHops = !o.d.noNextHops
	o.facts.Routes = o.d.routes.facts
	return nil
}

// readTables reads the main tables into a new memory. Announcements that arrive
// meanwhile are compared with everything that the new look has read so far.
func (o *observer) readTables() error {
	o.d.routes = nil
	extent := cloneExtent(o.extent)
	err := o.d.hints.watch(watched{links: o.owned, extent: extent})
	if err != nil {
		return err
	}
	m := &routeMemory{extent: extent, owned: o.owned, read: time.Now(), links: maps.Clone(o.owned),
		used: map[uint32]bool{}}
	err = m.readNextHops(o)
	if err != nil {
		return err
	}
	for _, family := range cidr.Families {
		err := m.readTable(o, family)
		if err != nil {
			return err
		}
	}
	o.d.routes = m
	return o.d.hints.watch(watched{links: o.owned, extent: extent, memory: m})
}

// cloneExtent returns a copy that shares no list with an extent.
func cloneExtent(e dataplane.Extent) dataplane.Extent {
	e = e.Whole()
	e.Links = slices.Clone(e.Links)
	e.Networks = slices.Clone(e.Networks)
	e.Sysctls = slices.Clone(e.Sysctls)
	e.Keys = slices.Clone(e.Keys)
	e.Kinds = slices.Clone(e.Kinds)
	e.PSKs = slices.Clone(e.PSKs)
	return e
}

func (m *routeMemory) readTable(o *observer, family cidr.Family) error {
	b, err := dumpRoutes(o.d.bulk, family)
	if err != nil {
		return err
	}
	var r route
	for body := range nl.Answers(b, unix.RTM_NEWROUTE, nl.AF(family)) {
		if !parseRoute(body, &r) {
			continue
		}
		err := m.add(o, &r)
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a route to the facts, to the state, to both or to neither.
func (m *routeMemory) add(o *observer, r *route) error {
	fact, object := r.underlay() && m.extent.Reaches(r.dst), o.inExtent(r)
	if !fact && !object {
		return nil
	}
	err := m.dependOn(o, r)
	if err != nil {
		return err
	}
	if fact {
		f, err := r.fact(o.links, m.objects)
		if err != nil {
			return err
		}
		if r.object != 0 {
			m.used[r.object] = true
			for _, member := range m.objects[r.object].group {
				m.used[member] = true
			}
		}
		m.facts = append(m.facts, f)
	}
	// The kernel lists routes of one key in the order in which it uses them.
	if !object || m.routes.Has(r.key()) {
		return nil
	}
	v, err := r.value(o.links)
	m.routes.Put(v)
	return err
}

// dependOn notes the links without which the kernel would drop the route: those
// of its hops, and the one with its preferred source.
func (m *routeMemory) dependOn(o *observer, r *route) error {
	for _, h := range append(slices.Clip(r.allHops(m.objects)), r.hop) {
		name, err := o.links.nameOf(h.oif)
		if err != nil {
			return err
		}
		if h.oif != 0 {
			m.links[h.oif] = name
		}
	}
	if !r.src.IsValid() {
		return nil
	}
	for _, l := range o.facts.Links {
		if slices.ContainsFunc(l.Addrs, func(a driver.LinkAddr) bool { return a.Prefix.Addr() == r.src }) {
			m.links[l.Index] = l.Name
		}
	}
	return nil
}

// forgetRoutes makes the next look read the tables if one of the ops may have
// changed a route.
func (d *Driver) forgetRoutes(ops []dataplane.Op) {
	for _, op := range ops {
		switch op.Object.(type) {
		case dataplane.Neigh, dataplane.FDBEntry, dataplane.Peer:
			continue
		}
		d.routes = nil
		return
	}
}
