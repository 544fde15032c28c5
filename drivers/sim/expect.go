package sim

import (
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// markKey is a pool and a link: the same device may have another index on
// another host.
type markKey struct {
	pool  *dataplane.Pool
	link  string
	index int
}

// marks say, for each object of a pool that is on a link, what a host's tables
// hold if it is there: which number in which slot. So that thousands of
// objects are there is seen without looking at one of them.
type marks struct {
	routes, neighs, fdb []mark // by number in the pool
}

type mark struct {
	at, value uint32
	on        bool // the object is on the link
}

// marksOf are up to date with the pool.
func (s *stack) marksOf(pool *dataplane.Pool, l *link) *marks {
	w := s.world
	k := markKey{pool, l.name, l.index}
	m := w.marks[k]
	if m == nil {
		if len(w.marks) >= 64 { // of pools that nobody may have any more
			clear(w.marks)
		}
		m = &marks{}
		w.marks[k] = m
	}
	for _, i := range pool.Routes()[len(m.routes):] {
		m.routes = append(m.routes, w.values.markRoute(i.Value, l))
	}
	for _, i := range pool.Neighs()[len(m.neighs):] {
		m.neighs = append(m.neighs, mark{w.values.neighs.number(i.Key.IP), packed(w.values.macs.number(i.Value.MAC), true), i.Key.Link == l.name})
	}
	for _, i := range pool.FDB()[len(m.fdb):] {
		m.fdb = append(m.fdb, mark{w.values.macs.number(i.Key.MAC), packed(w.values.hosts.number(i.Value.Dst), true), i.Key.Link == l.name})
	}
	return m
}

// markRoute is where a route is that differs in nothing from what a plain one
// is read as.
func (v *values) markRoute(o dataplane.Route, l *link) mark {
	r := route{
		dst: o.Dst, metric: kernelMetric(o.RouteKey), scope: o.Scope, proto: o.Protocol,
		hop: hop{link: l, via: o.Via, onlink: o.OnLink},
	}
	p, ok := r.plain()
	if !ok || o.Link != l.name || r.value() != o {
		return mark{}
	}
	return mark{v.prefixes.number(o.Dst), v.routes.number(p), true}
}

// holds reports whether the mark is there.
func (s *slots) holds(m mark) bool {
	v, ok := s.get(m.at)
	return ok && v == m.value
}

// unexpected names what within the extent is not as the caller expects; nil if
// that is too much, or nothing that can be compared quickly.
func (s *stack) unexpected(extent dataplane.Extent) *dataplane.Keys {
	if extent.Expect == nil || extent.Expect.Common == nil {
		return nil
	}
	keys := dataplane.NewKeys()
	keys.AddState(extent.Expect.Own)
	u := unexpected{
		stack: s, keys: keys, routes: extent.Expect.Routes(), neighs: extent.Expect.Neighs(), fdb: extent.Expect.FDB(),
	}
	for _, name := range extent.Links {
		if l := s.link(name); l != nil {
			u.onLink(l, s.marksOf(extent.Expect.Common.Pool(), l))
		}
	}
	u.otherRoutes(extent)
	if keys.Len() > journalled || u.compared < common(u.routes)+common(u.neighs)+common(u.fdb) {
		return nil
	}
	return keys
}

func common[K, V comparable](t dataplane.Table[K, V]) int { return t.Len() - len(t.Own()) }

// unexpected is a comparison under way.
type unexpected struct {
	stack    *stack
	routes   dataplane.Table[dataplane.RouteKey, dataplane.Route]
	neighs   dataplane.Table[dataplane.NeighKey, dataplane.Neigh]
	fdb      dataplane.Table[dataplane.FDBKey, dataplane.FDBEntry]
	keys     *dataplane.Keys // what is different
	compared int             // objects that are on a link of ours
	plain    [2]int          // routes that are as expected, by family
}

// onLink compares what is on a link, and looks for more.
func (u *unexpected) onLink(l *link, m *marks) {
	for i := range u.routes.Common {
		f := cidr.FamilyOf(i.Key.Dst.Addr())
		mark := m.routes[i.Number()]
		if !mark.on {
			continue
		}
		if u.compared++; u.stack.fibs[f].plain.holds(mark) {
			u.plain[f]++
		} else {
			u.keys.Routes[i.Key] = struct{}{}
		}
	}
	same, different := compared(u.neighs, m.neighs, &l.neighs.byAddr, u.keys.Neighs)
	if u.compared += same + different; l.neighs.byAddr.used > same {
		for ip, n := range l.neighs.all {
			if k := (dataplane.NeighKey{Link: l.name, IP: ip}); n.permanent && !u.neighs.Has(k) {
				u.keys.Neighs[k] = struct{}{}
			}
		}
	}
	same, different = compared(u.fdb, m.fdb, &l.fdb.byMAC, u.keys.FDB)
	if u.compared += same + different; l.fdb.byMAC.used > same {
		for mac, e := range l.fdb.all {
			if k := (dataplane.FDBKey{Link: l.name, MAC: mac}); e.permanent && !u.fdb.Has(k) {
				u.keys.FDB[k] = struct{}{}
			}
		}
	}
}

// compared is how many of the objects that are expected on a link are in its
// table, and how many are not just so, which it names.
func compared[K, V comparable](want dataplane.Table[K, V], marks []mark, table *slots, name map[K]struct{}) (same, different int) {
	for i := range want.Common {
		switch m := marks[i.Number()]; {
		case !m.on:
		case table.holds(m):
			same++
		default:
			different++
			name[i.Key] = struct{}{}
		}
	}
	return same, different
}

// otherRoutes names the routes within the extent that are not expected.
func (u *unexpected) otherRoutes(extent dataplane.Extent) {
	other := dataplane.State{Routes: map[dataplane.RouteKey]dataplane.Route{}}
	for _, f := range cidr.Families {
		fib := &u.stack.fibs[f]
		for dst := range fib.lists {
			fib.observeAt(&other, dst, extent)
		}
		if fib.plain.used == u.plain[f] {
			continue
		}
		for _, number := range fib.plain.all {
			if r := fib.open(number); !u.routes.Has(r.value().RouteKey) {
				r.observe(&other, extent)
			}
		}
	}
	u.keys.AddState(other)
}
