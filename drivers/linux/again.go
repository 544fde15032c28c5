package linux

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// fewAgain is how many objects a look reads one by one. Each takes two system calls, and
// a dump takes less than a microsecond for each of its objects.
const fewAgain = 64

// lookMemory holds what the last look returned, for looks that read a few objects again.
//
// Such a look still reads the links, the addresses and all other tables that do not grow
// with the number of peers. It reads everything if
//   - it asks for more than the last look, except for a few addresses to reach,
//   - a link or an address is not as it was: Linux removes objects along with them without
//     announcing it,
//   - the kernel announced a change that is a reason to look, or lost announcements,
//   - the driver has changed links or addresses, or many objects, or
//   - the kernel gives no exact answer about an object.
type lookMemory struct {
	extent dataplane.Extent
	owned  map[int]string // the extent's links
	state  *dataplane.State
	facts  driver.HostFacts
	done   []dataplane.Op // by the driver since
}

// recall returns the memory that a look may use, nil if it has to read everything, and
// forgets it: the look that is about to begin makes a new one.
func (d *Driver) recall(extent dataplane.Extent) (*lookMemory, error) {
	m := d.memory
	d.memory = nil
	news, err := d.hints.news()
	if err != nil {
		return nil, err
	}
	if m == nil || news || extent.Again == nil || len(m.done)+len(extent.Again) > fewAgain {
		return nil, nil
	}
	if !slices.Equal(m.extent.Links, extent.Links) || !slices.Equal(m.extent.Networks, extent.Networks) {
		return nil, nil
	}
	return m, nil
}

// remember keeps what a look has read.
func (d *Driver) remember(o *observer, seen driver.Observation) {
	d.memory = &lookMemory{extent: cloneExtent(o.extent), owned: o.owned, state: seen.State, facts: o.facts}
}

// changes notes the ops that the driver is about to perform.
func (d *Driver) changes(ops []dataplane.Op) {
	for _, op := range ops {
		m := d.memory
		if m == nil {
			return
		}
		switch op.Object.(type) {
		case dataplane.Route, dataplane.NextHop, dataplane.Neigh, dataplane.FDBEntry:
			m.done = append(m.done, op)
		case dataplane.Link, dataplane.Addr:
			d.memory = nil
		}
		if len(m.done) > fewAgain {
			d.memory = nil
		}
	}
}

// holds reports whether the links and addresses that a look has read are those of the memory.
func (m *lookMemory) holds(o *observer) bool {
	return m != nil &&
		maps.Equal(m.owned, o.owned) &&
		maps.Equal(m.state.Links, o.state.Links) &&
		slices.EqualFunc(m.facts.Links, o.facts.Links, driver.Link.Equal)
}

// readAgain takes the peers' objects from the memory and reads some of them. It returns false
// if everything has to be read.
func (o *observer) readAgain() bool {
	m, now := o.memory, o.memory.state.Clone()
	if !o.reachAgain() {
		return false
	}
	o.facts.NextHops = m.facts.NextHops
	for _, op := range m.done {
		if r, ok := op.Object.(dataplane.Route); ok {
			now.Routes.Delete(r.RouteKey)
			if op.Verb != dataplane.Delete {
				now.Routes.Put(r)
			}
		}
	}
	for _, op := range m.done {
		if !o.readOne(op.Object, now) {
			return false
		}
	}
	for _, object := range o.extent.Again {
		if !o.readOne(object, now) {
			return false
		}
	}
	o.state.Routes, o.state.NextHops = now.Routes, now.NextHops
	o.state.Neighs, o.state.FDB = now.Neighs, now.FDB
	return true
}

// reachAgain takes the underlay's routes from the memory, also if there are other addresses to
// reach. The memory has all routes to an address if it has the best one, which covers an
// address of the last look as well: a wider route covers both. It returns false if all routes
// have to be read.
func (o *observer) reachAgain() bool {
	m, to := o.memory, o.extent.Reach
	o.facts.Routes = m.facts.Routes
	if slices.Equal(m.extent.Reach, to) {
		return true
	}
	more := missing(to, m.extent.Reach)
	if len(more) > fewAgain {
		return false
	}
	o.d.hints.watchReach(to)
	for _, a := range more {
		r, is := o.d.match(a)
		covers := func(r driver.Route) bool { return r.Dst.Contains(a) }
		known := is == noRoute && !slices.ContainsFunc(m.facts.Routes, covers) ||
			is == mainRoute && r.underlay() && m.extent.Reaches(r.dst)
		if !known {
			return false
		}
	}
	unasked := func(r driver.Route) bool { return !o.extent.Reaches(r.Dst) }
	o.facts.Routes = slices.DeleteFunc(slices.Clone(m.facts.Routes), unasked)
	return true
}

// missing returns the addresses of a list that another one lacks. Both are in order.
func missing(list, from []netip.Addr) []netip.Addr {
	same := 0 // few addresses differ, and most often the lists begin alike
	for same < min(len(list), len(from)) && list[same] == from[same] {
		same++
	}
	list, from = list[same:], from[same:]
	var more []netip.Addr
	for _, a := range list {
		for len(from) > 0 && from[0].Less(a) {
			from = from[1:]
		}
		if len(from) == 0 || from[0] != a {
			more = append(more, a)
		}
	}
	return more
}

// readOne reads the object with the key of this one into a state. It returns false if the
// kernel does not tell exactly what that object is: then everything has to be read.
func (o *observer) readOne(object dataplane.Object, now *dataplane.State) (exact bool) {
	switch v := object.(type) {
	case dataplane.Route:
		return o.readRoute(v.RouteKey, now)
	case dataplane.NextHop:
		return o.readNextHop(v.ID, now)
	case dataplane.Neigh:
		return o.readNeigh(v.NeighKey, now)
	case dataplane.FDBEntry:
		return o.readFDBEntry(v.FDBKey, now)
	}
	return true // the look reads all objects of this kind
}

// readRoute asks which route the kernel takes to the first address of a destination. Only a
// route to this destination, or to a wider one, shows what there is: a narrower route hides
// it, and so does a rule that leads to another table. A rule or a narrower route that leads
// nowhere looks like no route at all: that counts only where none is expected.
func (o *observer) readRoute(k dataplane.RouteKey, now *dataplane.State) (exact bool) {
	r, is := o.d.match(k.Dst.Addr())
	if is == noAnswer {
		return false
	}
	if is == noRoute {
		return !now.Routes.Has(k)
	}
	if r.dst.Bits() < k.Dst.Bits() {
		now.Routes.Delete(k)
		return true
	}
	if r.key() != k {
		return false
	}
	if !o.inExtent(&r) {
		now.Routes.Delete(k)
		return true
	}
	v, err := r.value(o.links)
	now.Routes.Put(v)
	return err == nil
}

// answer describes how the kernel answers the question for the route to an address.
type answer uint8

const (
	noAnswer  answer = iota // nothing that shows what the main table holds
	noRoute                 // there is no route to the address, or it is hidden
	mainRoute               // the best route of the main table, for unicast
)

// match returns the route that the kernel takes to an address. A kernel before Linux 4.13
// answers with a copy of the route for this address, which does not count.
func (d *Driver) match(to netip.Addr) (r route, is answer) {
	const fibMatch, lookupTable = 0x2000, 0x1000 // RTM_F_FIB_MATCH, RTM_F_LOOKUP_TABLE
	family := cidr.FamilyOf(to)
	flags := uint32(fibMatch)
	if family == cidr.V4 { // IPv6 names the table in any case, and refuses the flag
		flags |= lookupTable
	}
	c := d.query
	c.Begin(unix.RTM_GETROUTE, 0)
	c.Out.U8(nl.AF(family), byte(to.BitLen()), 0, 0, 0, 0, 0, 0)
	c.Out.U32(flags)
	c.Out.AttrAddr(unix.RTA_DST, to)
	c.Out.End()
	body, err := c.Do()
	if errors.Is(err, unix.ENETUNREACH) {
		return r, noRoute
	}
	if err != nil || !parseRoute(body, &r) || r.kind != unix.RTN_UNICAST {
		return r, noAnswer
	}
	return r, mainRoute
}

// readNextHop reads a next hop, and the routes that use it if it is another one: they change
// and go along with it.
func (o *observer) readNextHop(id dataplane.NextHopID, now *dataplane.State) (exact bool) {
	c := o.d.query
	c.Begin(unix.RTM_GETNEXTHOP, 0)
	c.Out.U8(unix.AF_UNSPEC, 0, 0, 0)
	c.Out.U32(0)
	c.Out.AttrU32(nhaID, uint32(id))
	c.Out.End()
	body, exact := o.ask()
	if !exact {
		return false
	}
	before, _ := now.NextHops.Get(id)
	now.NextHops.Delete(id)
	h, index, ours := parseNextHop(body)
	if ours && body[0] == unix.AF_INET {
		name, err := o.links.nameOf(index)
		if err != nil {
			return false
		}
		h.Link = name
		now.NextHops.Put(h)
	}
	if before.ID == 0 || h == before {
		return true
	}
	o.memory.state.Routes.Each(func(r *dataplane.Route) {
		if r.NextHop == id {
			exact = exact && o.readRoute(r.RouteKey, now)
		}
	})
	return exact
}

func (o *observer) readNeigh(k dataplane.NeighKey, now *dataplane.State) (exact bool) {
	index, exists := o.indexOf(k.Link)
	if !exists {
		return true
	}
	c := o.d.query
	c.Begin(unix.RTM_GETNEIGH, 0)
	putNdmsg(c, nl.AF(cidr.FamilyOf(k.IP)), index, 0, 0)
	c.Out.AttrAddr(unix.NDA_DST, k.IP)
	c.Out.End()
	body, exact := o.ask()
	now.Neighs.Delete(k)
	e, _ := parseEntry(body)
	n, permanent := e.neigh(k.Link)
	if permanent {
		now.Neighs.Put(n)
	}
	return exact
}

func (o *observer) readFDBEntry(k dataplane.FDBKey, now *dataplane.State) (exact bool) {
	index, exists := o.indexOf(k.Link)
	if !exists {
		return true
	}
	c := o.d.query
	c.Begin(unix.RTM_GETNEIGH, 0)
	putNdmsg(c, unix.AF_BRIDGE, index, 0, unix.NTF_SELF)
	c.Out.Attr(unix.NDA_LLADDR, k.MAC[:])
	c.Out.End()
	body, exact := o.ask()
	now.FDB.Delete(k)
	e, _ := parseEntry(body)
	f, permanent := e.fdb(k.Link)
	if permanent {
		now.FDB.Put(f)
	}
	return exact
}

// indexOf returns the index of one of the extent's links. Objects on other links are not part
// of a look.
func (o *observer) indexOf(name string) (index int, exists bool) {
	for index, owned := range o.owned {
		if owned == name {
			return index, true
		}
	}
	return 0, false
}

// ask sends a question about one object and returns the answer; nil: there is no such object.
// Exact is false without an answer, as from a kernel before Linux 5.0.
func (o *observer) ask() (body []byte, exact bool) {
	body, err := o.d.query.Do()
	if err != nil {
		return nil, nl.IsGone(err)
	}
	return body, true
}
