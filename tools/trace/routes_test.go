package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// A route that is wider than flannel's networks takes the packet only because no other does, and a route to a pod
// without a lease is not known to be wrong: no remedy names either.
func TestRoutesThatAreNotTheCause(t *testing.T) {
	for _, c := range []struct{ dst, route string }{
		{"10.5.77.7", "0.0.0.0/0"},
		{"10.5.77.7", "10.5.77.0/24"},
		{"10.5.2.7", "0.0.0.0/0"},
		{"10.5.2.7", "10.0.0.0/8"},
	} {
		k := healthy(t)
		prefix, via := netip.MustParsePrefix(c.route), addr("192.168.64.254")
		k.routes[c.dst] = Route{Link: "eth0", Via: via}
		k.view.State.AddRoute(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: prefix}, Link: "eth0", Via: via,
			Protocol: dataplane.ProtocolBoot})
		r := trace(t, k, "10.5.1.7", c.dst, 84)
		if r.Reason != "no_route" || strings.Contains(r.Remedy, "ip route del") {
			t.Errorf("to %s past %s:\n%s", c.dst, c.route, text(t, r))
		}
	}
}
