package node

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/driver"
)

// TestCannotReach names an address in --iface-can-reach to which no route leads,
// beside a selector that finds the uplink. The node says so once, is ready, and
// takes the note back when there is a route.
func TestCannotReach(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) {
		o.Uplink.Ifaces = []string{"eth0"}
		o.Uplink.CanReach = "203.0.113.7"
	})
	defaultRoute := w.facts.Routes[0]
	w.facts.Routes = w.facts.Routes[1:]
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	const note = `--iface-can-reach "203.0.113.7": there is no route to 203.0.113.7`
	if notes := w.status().Notes; !slices.Contains(notes, note) {
		t.Errorf("notes %q", notes)
	}
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "eth1", Index: 3, MTU: 1500}) // other facts
	w.run(hint(HostLane))
	w.pass(time.Second)
	warned := 0
	for _, e := range w.events {
		if e.Kind == "cannot-reach" && e.Level == Warning && e.Text == note {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings, want one", warned)
	}
	narrow := defaultRoute
	narrow.Dst = netip.MustParsePrefix("203.0.113.0/24")
	w.facts.Routes = append(w.facts.Routes, narrow)
	w.run(hint(HostLane))
	w.pass(time.Second)
	w.wantReady()
	if notes := w.status().Notes; slices.Contains(notes, note) {
		t.Errorf("there is a route now; notes %q", notes)
	}
}
