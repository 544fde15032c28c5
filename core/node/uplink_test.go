package node

import (
	"net/netip"
	"slices"
	"strings"
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

// A restart with another flag chooses another address of the uplink. The record with the former one,
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
	if l := w.snap.Leases[0]; l.Attrs.PublicIP.String() != "192.168.64.3" {
		t.Errorf("without the flag it publishes %s", l.Attrs.PublicIP)
	}
	w.start(func(o *Options) { o.Uplink.Ifaces = []string{"192.168.64.150"} })
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

// secondUplink gives the host a second network, with a default route behind that of eth0.
func secondUplink(w *world) {
	w.facts.Links = append(slices.Clone(w.facts.Links), driver.Link{Name: "eth1", Index: 9, MTU: 1400, Up: true,
		Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix("172.20.0.1/24"), Permanent: true}}})
	w.facts.Routes = append(slices.Clone(w.facts.Routes), driver.Route{
		Dst: netip.MustParsePrefix("0.0.0.0/0"), Metric: 600,
		Hops: []driver.Hop{{Link: "eth1", Via: netip.MustParseAddr("172.20.0.254")}},
	})
}

// publishes returns the address in the record of the node's subnet.
func (w *world) publishes() string {
	l, _ := findLease(&w.snap, w.status().Subnet)
	return l.Attrs.PublicIP.String()
}

// The default route of the uplink is gone for hours, and a restart comes meanwhile: the node stays.
func TestUplinkStaysWithoutItsDefaultRoute(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	secondUplink(w)
	w.facts.Routes = w.facts.Routes[1:]
	for range 2 {
		w.run(hint(HostLane))
		w.pass(time.Hour)
		w.wantReady()
		if got := w.publishes(); got != "192.168.64.3" || w.count("uplink-moved") != 0 {
			t.Errorf("publishes %s\n%s", got, w.log())
		}
		w.start()
		w.tell()
	}
}

// The address of the uplink is gone for minutes: the node moves, says so, and returns when the address is back, also
// after a restart.
func TestUplinkMovesAndReturns(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := readyWorld(t)
		w.pass(time.Minute)
		secondUplink(w)
		addrs := w.facts.Links[0].Addrs
		w.facts.Links[0].Addrs = nil
		w.run(hint(HostLane))
		w.pass(4 * time.Minute)
		if s := w.status(); s.Ready || s.Uplink.Link != "eth0" || w.count("uplink-lost") != 1 {
			t.Errorf("ready %t, uplink %s\n%s", s.Ready, s.Uplink.Link, w.log())
		}
		w.pass(2 * time.Minute)
		w.wantReady()
		if got := w.publishes(); got != "172.20.0.1" {
			t.Errorf("publishes %s\n%s", got, w.log())
		}
		const want = "moved from eth0 (MTU 1500, 192.168.64.3, public 192.168.64.3) to eth1 (MTU 1400, 172.20.0.1, public " +
			"172.20.0.1): interface eth0 has lost 192.168.64.3 for 5m0s; to pin a choice, start with --iface=eth0 or " +
			"--public-ip=192.168.64.3"
		if got := w.logged("uplink-moved"); len(got) != 1 || got[0] != want {
			t.Errorf("logged\n%q, want\n%q", got, want)
		}
		if restarted {
			w.start()
			w.tell()
			w.pass(time.Minute)
		}
		w.facts.Links[0].Addrs = addrs
		w.run(hint(HostLane))
		w.pass(time.Minute)
		w.wantReady()
		if got := w.publishes(); got != "192.168.64.3" || w.count("uplink-moved") != 2 {
			t.Errorf("restarted %t: publishes %s\n%s", restarted, got, w.log())
		}
	}
}

// DHCP clients give the bridge of the pods, a pod's veth and flannel's device default routes and addresses. A restart
// with or without the state file takes none of them.
func TestUplinkIsNeverTheOverlays(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	before := w.own().Key
	address := func(text string) []driver.LinkAddr {
		return []driver.LinkAddr{{Prefix: netip.MustParsePrefix(text), Permanent: true}}
	}
	w.facts.Links = append(slices.Clone(w.facts.Links),
		driver.Link{Name: "flannel.1", Index: 10, MTU: 1450, Up: true, Addrs: address("169.254.77.5/16")},
		driver.Link{Name: "cni0", Index: 11, MTU: 1450, Up: true, Bridge: true, Addrs: address("10.5.1.1/24")},
		driver.Link{Name: "vp", Index: 12, MTU: 1450, Up: true, Inside: true, Master: "cni0", Addrs: address("10.77.0.1/24")})
	w.facts.Routes = nil
	for _, link := range []string{"flannel.1", "cni0", "vp"} {
		w.facts.Routes = append(w.facts.Routes,
			driver.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Hops: []driver.Hop{{Link: link}}})
	}
	w.start()
	w.tell()
	w.pass(time.Hour)
	w.wantReady()
	if l := w.own(); l.Key != before || l.Attrs.PublicIP.String() != "192.168.64.3" {
		t.Errorf("holds %s, publishes %s", l.Key, l.Attrs.PublicIP)
	}
	w.start(func(o *Options) { o.Saved = nil })
	w.tell()
	w.pass(time.Minute)
	const why = "interface flannel.1 cannot be the uplink: it is a device of flannel"
	if w.exit == nil || !strings.Contains(w.exit.Reason, why) {
		t.Errorf("exit %+v\n%s", w.exit, w.log())
	}
}

// Two hosts swap their addresses while no daemon runs. The record that has the node's address now is the other host's,
// and the node publishes its new address in its own one, which has its backend data. The other host's daemon may have
// started before, and published the node's former address.
func TestSwappedAddresses(t *testing.T) {
	const hostGW = `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`
	for _, c := range []struct {
		config   string
		followed bool // the other host has published its new address
	}{{vxlanConfig, false}, {hostGW, false}, {vxlanConfig, true}, {hostGW, true}} {
		config := c.config
		w := newWorld(t, config)
		w.tell()
		w.pass(time.Minute)
		w.wantReady()
		before := w.status().Subnet
		other := vxlanPeer("10.5.9.0-24", 4)
		if config != vxlanConfig {
			other.Attrs.BackendType, other.Attrs.BackendData = "host-gw", nil
		}
		other = w.put(other)
		w.tell()
		w.pass(time.Minute)
		w.facts.Links = slices.Clone(w.facts.Links)
		w.facts.Links[0].Addrs = []driver.LinkAddr{{Prefix: netip.MustParsePrefix("192.168.64.4/24"), Permanent: true}}
		if c.followed {
			other.Attrs.PublicIP = netip.MustParseAddr("192.168.64.3")
			other = w.put(other)
		}
		w.start()
		w.tell()
		w.pass(time.Minute)
		w.wantReady()
		if s := w.status(); s.Subnet != before || w.publishes() != "192.168.64.4" {
			t.Errorf("%s, followed=%t: holds %s, publishes %s; want %s", config, c.followed, s.Subnet, w.publishes(), before)
		}
		if l, _ := findLease(&w.snap, other.Key); !l.Attrs.Equal(other.Attrs) {
			t.Errorf("%s: it has written the record of the other host: %+v", config, l)
		}
	}
}

// A bridge with a default route is the uplink until the CNI configuration says that it is the bridge of the pods.
func TestUplinkIsNoBridgeOfTheConfiguration(t *testing.T) {
	for _, names := range [][]string{nil, {"br-pods"}} {
		w := newWorld(t, vxlanConfig)
		w.podBridges = names
		w.facts.Links = append(w.facts.Links, driver.Link{Name: "br-pods", Index: 8, MTU: 1500, Up: true, Bridge: true,
			Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix("10.95.0.7/24"), Permanent: true}}})
		w.facts.Routes = append([]driver.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"),
			Hops: []driver.Hop{{Link: "br-pods", Via: netip.MustParseAddr("10.95.0.1")}}}}, w.facts.Routes...)
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		want := "br-pods"
		if names != nil {
			want = "eth0"
		}
		if got := w.status().Uplink.Link; got != want {
			t.Errorf("the configuration names %q: the uplink is %s, want %s", names, got, want)
		}
	}
}

// A note names the interface by which no packet leaves, and goes when packets can leave again. For a bridge that is its
// port. The ports of pods do not count.
func TestUplinkDownIsNoted(t *testing.T) {
	w := readyWorld(t)
	eth0 := &w.facts.Links[0]
	port, pods := driver.Link{Name: "eno1", Index: 8, MTU: 1500, Up: true, Master: "eth0"},
		driver.Link{Name: "veth1", Index: 9, MTU: 1500, Up: true, Master: "eth0", Inside: true}
	for i, step := range []struct {
		happens func()
		want    string // a part of the only note; "": there is none
	}{
		{func() { eth0.Up = false }, "uplink eth0 is down"},
		{func() { eth0.Up, eth0.NoCarrier = true, true }, "uplink eth0 has no carrier"},
		{func() { eth0.NoCarrier = false }, ""},
		{func() { w.facts.Links = append(w.facts.Links, pods) }, ""},
		{func() { port.NoCarrier = true; w.facts.Links = append(w.facts.Links, port) }, "eno1, by which the uplink eth0"},
		{func() { w.facts.Links[len(w.facts.Links)-1].NoCarrier = false }, ""},
	} {
		w.facts.Links = slices.Clone(w.facts.Links) // the node keeps those of the last look
		eth0 = &w.facts.Links[0]
		step.happens()
		w.run(hint(HostLane))
		w.pass(time.Second)
		w.wantReady()
		notes := strings.Join(w.status().Notes, "; ")
		if !strings.Contains(notes, step.want) || step.want == "" && notes != "" {
			t.Errorf("step %d: notes %q, want %q", i, notes, step.want)
		}
	}
	if w.count("uplink-down") != 3 || w.count("uplink-up") != 2 {
		t.Errorf("want three lines that it is down, one for each cause, and two that it is up\n%s", w.log())
	}
}
