package linux

import (
	"errors"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// TestDeleteOfFewReadsNoTable deletes routes. The driver reads a table only for a route that the
// kernel's lookup does not show: one behind another of its key, behind a rule or behind a
// narrower route. Either way it deletes that route and no other.
func TestDeleteOfFewReadsNoTable(t *testing.T) {
	const plain = "route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink"
	for name, c := range map[string]struct {
		before []string // ops
		hide   string   // a command of iproute2
		route  string
		reads  bool
	}{
		"IPv4":            {route: plain},
		"IPv6":            {route: "route fd00:5:0:3::/64 via fd00:5:0:3:: dev flannel.1 onlink", reads: true},
		"without gateway": {route: "route 10.5.3.0/24 dev flannel.1"},
		"next hop": {
			before: []string{"add nexthop 10.5.3.0 via 10.5.3.0 dev flannel.1 onlink"},
			route:  "route 10.5.3.0/24 nhid 10.5.3.0 via 10.5.3.0 dev flannel.1 onlink",
		},
		"rule":     {hide: "rule add to 10.5.3.0/24 unreachable", route: plain, reads: true},
		"narrower": {hide: "route add throw 10.5.3.0/32", route: plain, reads: true},
		"metric":   {before: []string{"add " + plain}, route: plain + " metric 7", reads: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withOverlay(t)
			apply(t, w.d, ops(t, append(c.before, "add "+c.route)...))
			if c.hide != "" {
				w.ip(t, c.hide)
			}
			before := w.look(t, benchExtent).Routes.Len()
			del := ops(t, "del "+c.route, "del "+c.route)
			w.d.forgetRoutes(del)
			a := &applier{d: w.d, links: newLinks(w.d.query, w.d.wg), ops: del, errs: make([]error, len(del))}
			err := a.one(0, del[0])
			read := false
			for _, list := range a.there {
				read = read || list != nil
			}
			again := a.one(1, del[1])
			a.flush()
			if err != nil || a.errs[0] != nil || read != c.reads {
				t.Errorf("delete: %v, %v; a table was read: %t, want %t", err, a.errs[0], read, c.reads)
			}
			if again == nil && a.errs[1] == nil {
				t.Error("the second delete of the route is no error")
			}
			now := w.look(t, benchExtent)
			if _, found := now.Namesake(del[0].Object.(dataplane.Route)); found || now.Routes.Len() != before-1 {
				t.Errorf("%d routes became %d:\n%s", before, now.Routes.Len(), now.Dump())
			}
		})
	}
}

// TestDeleteBehindAnotherForm deletes a route that stands behind one of another form, which the
// kernel would delete in its place. Neither may go, and the form shows in a look.
func TestDeleteBehindAnotherForm(t *testing.T) {
	for name, c := range map[string]struct {
		before []string // commands of iproute2 that make the other route
		form   string
		behind string // our route, as a command of iproute2
		asked  string // and as an op's
	}{
		"multipath": {
			before: []string{"route add 10.5.3.0/24 proto 102 nexthop via 192.168.64.4 dev eth0 " +
				"nexthop via 192.168.64.5 dev eth0"},
			form:   "route 10.5.3.0/24 other multipath",
			behind: "route append 10.5.3.0/24 via 192.168.64.4 dev eth0 proto 102",
			asked:  "route 10.5.3.0/24 via 192.168.64.4 dev eth0",
		},
		"nexthop object": {
			before: []string{"nexthop add id 7 via fd00:a::5 dev eth0", "-6 route add fd00:5:3::/64 nhid 7 proto 102"},
			form:   "route fd00:5:3::/64 via fd00:a::5 dev eth0 other nexthop-object",
			behind: "-6 route append fd00:5:3::/64 dev eth0 proto 102",
			asked:  "route fd00:5:3::/64 dev eth0",
		},
		"MTU": {
			before: []string{"route add 10.5.3.0/24 via 192.168.64.4 dev eth0 proto 102 mtu 1300"},
			form:   "route 10.5.3.0/24 via 192.168.64.4 dev eth0 other metrics",
			behind: "route append 10.5.3.0/24 via 192.168.64.4 dev eth0 proto 102",
			asked:  "route 10.5.3.0/24 via 192.168.64.4 dev eth0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.withOverlay(t)
			w.do(t, "add addr fd00:a::3/64 dev eth0")
			for _, command := range c.before {
				w.ip(t, command)
			}
			del := ops(t, "del "+c.asked)
			key := del[0].Object.(dataplane.Route).RouteKey
			extent := dataplane.Extent{Links: []string{"eth0"}}
			if got, _ := w.look(t, extent).Routes.Get(key); got.String() != c.form {
				t.Fatalf("observed %s, want %s", got, c.form)
			}
			w.ip(t, c.behind)
			for _, n := range []int{1, fewAgain + 1} {
				errs := w.d.Apply(t.Context(), slices.Repeat(del, n))
				if !errors.Is(errs[0], driver.ErrUnsupported) {
					t.Errorf("the first of %d deletes: %v", n, errs[0])
				}
			}
			a := &applier{d: w.d, links: newLinks(w.d.query, w.d.wg)}
			list := must(a.readRoutes(cidr.FamilyOf(key.Dst.Addr())))
			other := func(r dataplane.Route) bool { return r.RouteKey != key }
			if left := slices.DeleteFunc(list.routes, other); len(left) != 2 {
				t.Errorf("left, want two routes: %v", left)
			}
		})
	}
}
