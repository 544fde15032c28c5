package linux

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// routeList holds the routes of a table in the kernel's order, in which the routes
// of a key stand side by side.
type routeList struct {
	routes []dataplane.Route
	gone   []bool
	first  map[dataplane.RouteKey]int
}

func newRouteList(room int) *routeList {
	return &routeList{
		routes: make([]dataplane.Route, 0, room), gone: make([]bool, 0, room),
		first: make(map[dataplane.RouteKey]int, room),
	}
}

func (l *routeList) add(r dataplane.Route) {
	if _, ok := l.first[r.RouteKey]; !ok {
		l.first[r.RouteKey] = len(l.routes)
	}
	l.routes, l.gone = append(l.routes, r), append(l.gone, false)
}

// take removes exactly the given route. It must be there, and be the one that
// the kernel picks when asked to delete it.
func (l *routeList) take(r dataplane.Route) error {
	i, ok := l.first[r.RouteKey]
	if !ok {
		return unix.ESRCH
	}
	var other *dataplane.Route
	for ; i < len(l.routes) && l.routes[i].RouteKey == r.RouteKey; i++ {
		if l.gone[i] {
			continue
		}
		switch at := &l.routes[i]; {
		case *at != r:
			if other == nil && mistaken(*at, r) {
				other = at
			}
		case other != nil:
			return fmt.Errorf("the kernel would delete %q, which stands before it: %w", *other, driver.ErrUnsupported)
		default:
			l.gone[i] = true // a second delete of r must not count as another route
			return nil
		}
	}
	return unix.ESRCH
}

// mistaken reports whether the kernel would delete route "at" when asked to
// delete r (fib_nh_match and ip6_route_del). The kernel ignores onlink, metrics such as an MTU,
// and encapsulations. To IPv4 a missing gateway matches any gateway; putRoute prevents that for
// IPv6. Of an IPv4 multipath route the kernel compares the first hop, which we do not know; for an IPv6
// route with a nexthop object, and for routes we cannot parse, only key and protocol.
func mistaken(at, asked dataplane.Route) bool {
	v4 := cidr.FamilyOf(asked.Dst.Addr()) == cidr.V4
	switch {
	case at.Protocol != asked.Protocol || at.Scope != asked.Scope:
		return false
	case asked.Other != "":
		return true
	case at.NextHop != asked.NextHop:
		return false
	case at.NextHop != 0:
		return at.Kind == asked.Kind
	case at.Other == multipath:
		return v4 && asked.Kind == dataplane.Unicast
	case at.Other == nexthopObject:
		return true
	case at.Kind != asked.Kind || at.Link != asked.Link:
		return false
	}
	return at.Via == asked.Via || v4 && !asked.Via.IsValid()
}

// mustBeThere checks that the route to delete exists and that the kernel will
// delete no other in its place.
func (a *applier) mustBeThere(r dataplane.Route) error {
	family := cidr.FamilyOf(r.Dst.Addr())
	if a.there[family] == nil {
		a.flush()
		if len(a.ops) <= fewAgain && a.isFirst(r) {
			return nil
		}
		there, err := a.readRoutes(family)
		if err != nil {
			return err
		}
		a.there[family] = there
	}
	return a.there[family].take(r)
}

// isFirst reports whether the kernel takes exactly this IPv4 route to the first address of its
// destination. Then it stands before all others of its key that a packet could take. The kernel passes
// over a route that cannot be used, but only together with all others through the same link, and it
// deletes none through another link in the place of this one: a multipath route is compared by its first
// hop, and passed over if no hop can be used. Of several default routes it takes one whose gateway
// answers. So a plan of few ops reads no table. With IPv6 a route passed over could be deleted,
// one whose nexthop object is dead.
func (a *applier) isFirst(r dataplane.Route) bool {
	if !r.Dst.Addr().Is4() || r.Dst.Bits() == 0 {
		return false
	}
	found, is := a.d.match(r.Dst.Addr())
	if is != mainRoute {
		return false
	}
	v, err := found.value(a.links)
	return err == nil && v == r && r.Other == ""
}

func (a *applier) readRoutes(family cidr.Family) (*routeList, error) {
	b, err := dumpRoutes(a.d.bulk, family)
	if err != nil {
		return nil, err
	}
	there := newRouteList(a.d.peers)
	var r route
	for body := range nl.Answers(b, unix.RTM_NEWROUTE, nl.AF(family)) {
		if !parseRoute(body, &r) {
			continue
		}
		v, err := r.value(a.links)
		if err != nil {
			return nil, err
		}
		there.add(v)
	}
	return there, nil
}
