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

// An uplink that loses its address stays in force, and the log says once that it is
// gone and once that it is back. Other news of the host is no reason for a line.
func TestUplinkGoesAndComesBack(t *testing.T) {
	w := readyWorld(t)
	look := func() {
		w.run(hint(HostLane))
		w.pass(time.Second)
	}
	w.facts.Links = append(w.facts.Links, driver.Link{Name: "eth1", Index: 3, MTU: 1500})
	look()
	if got := w.count("uplink") + w.count("uplink-lost") + w.count("uplink-back"); got != 1 {
		t.Errorf("%d lines about the uplink, want the first one alone\n%s", got, w.log())
	}
	addrs := w.facts.Links[0].Addrs
	w.facts.Links[0].Addrs = nil
	look()
	look()
	if s := w.status(); s.Ready || w.count("uplink-lost") != 1 || s.Uplink.Link != "eth0" {
		t.Errorf("ready %t, uplink %s\n%s", s.Ready, s.Uplink.Link, w.log())
	}
	w.facts.Links[0].Addrs = addrs
	look()
	w.wantReady()
	if w.count("uplink-back") != 1 || w.count("uplink") != 1 {
		t.Errorf("want one line that the uplink is back\n%s", w.log())
	}
}

// A restart chooses another address of the uplink. The record with the former one,
// which the uplink still has, is the node's own: it keeps its subnet.
func TestRestartChoosesAnotherAddress(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	before := w.own().Key
	second := driver.LinkAddr{Prefix: netip.MustParsePrefix("192.168.64.150/24"), Permanent: true}
	w.facts.Links = slices.Clone(w.facts.Links)
	w.facts.Links[0].Addrs = slices.Insert(slices.Clone(w.facts.Links[0].Addrs), 0, second)
	w.start()
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	if len(w.snap.Leases) != 1 {
		t.Fatalf("leases %v", w.snap.Leases)
	}
	if l := w.snap.Leases[0]; l.Key != before || l.Attrs.PublicIP != second.Prefix.Addr() {
		t.Errorf("holds %s, publishes %s; want %s and %s", l.Key, l.Attrs.PublicIP, before, second.Prefix.Addr())
	}
}
