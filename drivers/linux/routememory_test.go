package linux

import (
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// memoryExtent asks for the overlay and for the route to one address beyond.
var memoryExtent = dataplane.Extent{
	Links:    benchExtent.Links,
	Networks: benchExtent.Networks,
	Reach:    []netip.Addr{netip.MustParseAddr("172.16.8.1")},
	Kinds:    []dataplane.LinkKind{dataplane.LinkVXLAN},
	PSKs:     []dataplane.Secret{{}},
}

// TestRoutesAreReadOnce looks again after changes, and expects a look to read
// the tables only after a change that can concern the routes that matter.
func TestRoutesAreReadOnce(t *testing.T) {
	w := newWorld(t)
	w.withOverlay(t)
	w.do(t, "add link eth1 type ethernet mtu 1500 mac 02:00:00:00:00:02 up", "add addr 172.18.0.1/30 dev eth1")
	for _, c := range []struct {
		name    string
		actions []string // by others
		ops     []string // by the driver
		want    bool     // a new reading
	}{
		{name: "nothing"},
		{name: "route of a routing daemon", actions: []string{"add route 172.30.0.0/24 via 192.168.64.9 dev eth0 proto 186"}},
		{name: "static route elsewhere", actions: []string{"add route 172.31.0.0/24 via 192.168.64.9 dev eth0 proto 4"}},
		{name: "another link", actions: []string{"add link pod0 type ethernet mtu 1500 mac 02:00:00:00:00:03 up"}},
		{name: "an address of another link", actions: []string{"add addr 172.19.0.1/30 dev pod0"}},
		{name: "another link down and up", actions: []string{"down pod0", "up pod0"}},
		{name: "own neighbour", ops: []string{"add neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1"}},
		{name: "own route", ops: []string{"add route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink"}, want: true},
		{name: "route to the address asked for",
			actions: []string{"add route 172.16.0.0/12 via 192.168.64.9 dev eth0 proto 186"}, want: true},
		{name: "route into the overlay",
			actions: []string{"add route 10.5.10.0/24 via 192.168.64.9 dev eth0 proto 186"}, want: true},
		{name: "default route",
			actions: []string{"add route 0.0.0.0/0 via 172.18.0.2 dev eth1 metric 7 proto 186"}, want: true},
		{name: "address of the default route's link", actions: []string{"add addr 172.18.0.5/30 dev eth1"}},
		{name: "the same removed", actions: []string{"del addr 172.18.0.5/30 dev eth1"}, want: true},
		{name: "overlay down and up", actions: []string{"down flannel.1", "up flannel.1"}, want: true},
	} {
		before := w.look(t, memoryExtent)
		read := w.d.routes
		if again := w.look(t, memoryExtent); again != before || w.d.routes != read {
			t.Fatalf("before %q the host does not come to rest", c.name)
		}
		w.do(t, c.actions...)
		apply(t, w.d, ops(t, c.ops...))
		w.look(t, memoryExtent)
		if got := w.d.routes != read; got != c.want {
			t.Errorf("%s: the look read the tables: %t, want %t", c.name, got, c.want)
		}
	}
	w.d.routes.read = w.d.routes.read.Add(-2 * rememberFor)
	old := w.d.routes
	w.look(t, memoryExtent)
	if w.d.routes == old {
		t.Error("the look reused routes that were read long ago")
	}
	if time.Since(w.d.routes.read) > rememberFor {
		t.Error("the new reading is old")
	}
}
