package linux

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
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
		"IPv6":            {route: "route fd00:5:0:3::/64 via fd00:5:0:3:: dev flannel.1 onlink"},
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
