package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

// ready returns a world with two peers, in which all is well.
func readyWorld(t *testing.T) *world {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

// interop P1: the node restores every object that goes, with a hint or without.
func TestEveryLostObjectIsRestored(t *testing.T) {
	faults := map[string]func(w *world){
		"device": func(w *world) {
			w.unplug("flannel.1")
		},
		"down": func(w *world) {
			l := w.host.Links["flannel.1"]
			l.Up = false
			w.host.AddLink(l)
			w.host.Routes.DeleteFunc(every)
		},
		"MAC":     func(w *world) { l := w.host.Links["flannel.1"]; l.MAC[5]++; w.host.AddLink(l) },
		"MTU":     func(w *world) { l := w.host.Links["flannel.1"]; l.MTU = 1200; w.host.AddLink(l) },
		"address": func(w *world) { clear(w.host.Addrs) },
		"routes":  func(w *world) { w.host.Routes.DeleteFunc(every) },
		"neigh":   func(w *world) { w.host.Neighs.DeleteFunc(every) },
		"fdb":     func(w *world) { w.host.FDB.DeleteFunc(every) },
		"sysctl": func(w *world) {
			c := "net/ipv6/conf/flannel.1/accept_ra"
			w.host.Sysctls[c] = dataplane.Sysctl{Path: c, Value: "1", Link: "flannel.1"}
		},
		"foreign": func(w *world) {
			w.host.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: "flannel.1",
				IP: netip.MustParseAddr("10.5.9.0")}})
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			want := w.host.Dump()
			fault(w)
			if w.host.Dump() == want {
				t.Fatal("the fault changed nothing")
			}
			w.run(hint(HostLane))
			w.pass(time.Second)
			if w.host.Dump() != want {
				t.Errorf("after a hint:\n%s\nwant\n%s", w.host.Dump(), want)
			}
			fault(w)
			w.pass(40 * time.Second)
			if w.host.Dump() != want {
				t.Errorf("after a resync:\n%s\nwant\n%s", w.host.Dump(), want)
			}
			w.wantReady()
		})
	}
}

// interop P2, E1: deletes need a synced store, and follow it.
func TestPrunesWhatLeftWhileDown(t *testing.T) {
	w := readyWorld(t)
	w.remove(mustKey("10.5.4.0-24"))
	w.down = true
	w.start()
	w.tell()
	w.pass(10 * time.Second)
	if s := w.status(); !s.Stale || s.Ready || w.host.Routes.Len() != 2 {
		t.Errorf("during the outage: %+v\n%s", s, w.host.Dump())
	}
	w.down = false
	w.tell()
	w.pass(2 * time.Second)
	w.wantReady()
	if w.host.Routes.Len() != 1 || w.host.FDB.Len() != 1 || w.host.Neighs.Len() != 1 {
		t.Errorf("after it:\n%s", w.host.Dump())
	}
}

// What could not be deleted during an outage keeps a node from being ready,
// and goes as soon as the store is back, even if nothing in it has changed.
func TestWithheldDeletesFollowTheStore(t *testing.T) {
	w := readyWorld(t)
	want := w.host.Dump()
	w.down = true
	w.tell()
	w.host.AddNeigh(dataplane.Neigh{NeighKey: dataplane.NeighKey{Link: "flannel.1", IP: netip.MustParseAddr("10.5.9.0")}})
	w.pass(time.Minute)
	w.down = false
	w.n.Step(w.now, Input{View: w.view()})
	if w.status().Ready {
		t.Error("ready with an object too many")
	}
	w.tell()
	if w.host.Dump() != want {
		t.Errorf("host:\n%s\nwant\n%s", w.host.Dump(), want)
	}
	w.wantReady()
}

// A restart in the middle of an outage programs the peers from the state file.
func TestStaleRestart(t *testing.T) {
	w := readyWorld(t)
	w.pass(10 * time.Second)
	want := w.host.Dump()
	w.host = dataplane.NewState() // the machine rebooted
	w.down = true
	w.start()
	w.tell()
	w.pass(10 * time.Second)
	if w.host.Dump() != want {
		t.Errorf("host:\n%s\nwant\n%s", w.host.Dump(), want)
	}
	if s := w.status(); !s.Stale || s.Ready || !strings.HasPrefix(s.Reasons[0], "stale:") {
		t.Errorf("status %+v", s)
	}
}

// interop E1: an undecodable record is named once and touches nothing.
func TestQuarantineRemovesNoPeer(t *testing.T) {
	w := readyWorld(t)
	want := w.host.Dump()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Quarantined = []lease.Quarantined{
		{Raw: "/coreos.com/network/subnets/10.5.4.0-24", Key: mustKey("10.5.4.0-24"), Reason: "not JSON", OverwroteAt: w.rev},
		{Raw: "/coreos.com/network/subnets/garbage", Reason: "not a subnet"},
	}
	w.tell()
	w.tell()
	w.pass(time.Minute)
	if w.host.Dump() != want {
		t.Errorf("host:\n%s\nwant\n%s", w.host.Dump(), want)
	}
	w.wantReady()
	if w.count("quarantined") != 2 {
		t.Errorf("log:\n%s", w.log())
	}
}

// interop E11: a peer's new attributes replace the old, and nothing stays of them.
func TestChangedPeer(t *testing.T) {
	w := readyWorld(t)
	p := vxlanPeer("10.5.4.0-24", 55)
	w.put(p)
	w.tell()
	w.pass(time.Second)
	if d := w.host.Dump(); !strings.Contains(d, "fdb c6:00:00:00:00:37 dst 192.168.64.55") ||
		strings.Contains(d, "c6:00:00:00:00:05") {
		t.Errorf("host:\n%s", d)
	}
}

// interop F9: a changed uplink is followed, in the kernel and in the record.
func TestUplinkChange(t *testing.T) {
	w := readyWorld(t)
	key := w.own().Key
	addrs := w.facts.Links[0].Addrs
	w.facts.Links[0].Addrs = nil
	w.run(hint(HostLane))
	w.pass(2 * time.Second)
	if s := w.status(); s.Ready || vxlanOf(w.host.Links["flannel.1"]).Local != netip.MustParseAddr("192.168.64.3") {
		t.Errorf("without an address: %+v", s)
	}
	addrs[0].Prefix = netip.MustParsePrefix("192.168.64.33/24")
	w.facts.Links[0].Addrs, w.facts.Links[0].MTU = addrs, 1400
	w.run(hint(HostLane))
	w.pass(2 * time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.count("peer-refused") != 0 {
		t.Errorf("took its own record for a peer's:\n%s", w.log())
	}
	if l := w.host.Links["flannel.1"]; vxlanOf(l).Local.String() != "192.168.64.33" || l.MTU != 1350 {
		t.Errorf("device %s", l)
	}
	if l, _ := findLease(&w.snap, key); l.Attrs.PublicIP.String() != "192.168.64.33" || len(w.snap.Leases) != 3 {
		t.Errorf("leases %v", w.snap.Leases)
	}
	if !strings.Contains(w.files[SubnetFile], "FLANNEL_MTU=1350") {
		t.Errorf("subnet file:\n%s", w.files[SubnetFile])
	}
}

// interop P8: direct or not is judged again whenever the underlay changes.
func TestDirectRoutingFollowsTheUnderlay(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`)
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	const direct, tunnelled = "route 10.5.4.0/24 via 192.168.64.5 dev eth0\n",
		"route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink\n"
	if d := w.host.Dump(); !strings.Contains(d, direct) || w.host.FDB.Len() != 0 {
		t.Errorf("on one segment:\n%s", d)
	}
	w.facts.Routes[1].Dst = netip.MustParsePrefix("192.168.64.0/30")
	w.run(hint(HostLane))
	w.pass(time.Second)
	if d := w.host.Dump(); !strings.Contains(d, tunnelled) || strings.Contains(d, direct) || w.host.FDB.Len() != 1 {
		t.Errorf("behind a gateway:\n%s", d)
	}
	w.facts.Routes[1].Dst = netip.MustParsePrefix("192.168.64.0/24")
	w.run(hint(HostLane))
	w.pass(time.Second)
	if d := w.host.Dump(); !strings.Contains(d, direct) || w.host.FDB.Len() != 0 || w.host.Neighs.Len() != 0 {
		t.Errorf("on one segment again:\n%s", d)
	}
}

// TestDirectRoutingAsksFirst lets a peer's record arrive while a look is under
// way that has not asked for the route to the peer. The node looks again, and
// never routes the peer through the tunnel.
func TestDirectRoutingAsksFirst(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`)
	second := driver.Route{Dst: netip.MustParsePrefix("192.168.80.0/24"), Hops: []driver.Hop{{Link: "eth0"}}}
	w.facts.Routes = append(w.facts.Routes, second)
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.now = w.now.Add(time.Minute)
	w.n.Step(w.now, Input{})
	r := w.n.Ready()
	if r.Lanes[HostLane].Look == nil {
		t.Fatal("no look is under way")
	}
	late := vxlanPeer("10.5.6.0-24", 6)
	late.Attrs.PublicIP = netip.MustParseAddr("192.168.80.6")
	w.put(late)
	w.n.Step(w.now, Input{View: w.view()})
	looked, _ := w.perform(r)
	w.run(looked)
	w.pass(time.Second)
	w.wantReady()
	if d := w.host.Dump(); !strings.Contains(d, "route 10.5.6.0/24 via 192.168.80.6 dev eth0\n") {
		t.Errorf("the new peer has no direct route:\n%s", d)
	}
	for _, op := range slices.Concat(w.plans...) {
		if e, ok := op.Object.(dataplane.FDBEntry); ok {
			t.Errorf("a peer on the segment was reached through the tunnel for a while: %s %s", op.Verb, e)
		}
	}
}

// TestReach lists the addresses whose routes the looks of each backend read.
func TestReach(t *testing.T) {
	canReach := func(o *Options) { o.Uplink.CanReach = "192.168.64.77" }
	for _, c := range []struct {
		conf string
		mod  func(*Options)
		want string
	}{
		{vxlanConfig, func(*Options) {}, "[]"},
		{vxlanConfig, canReach, "[192.168.64.77]"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","DirectRouting":true}}`, canReach,
			"[192.168.64.4 192.168.64.5 192.168.64.77]"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip","DirectRouting":true}}`, func(*Options) {},
			"[192.168.64.4 192.168.64.5]"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"ipip"}}`, func(*Options) {}, "[]"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, func(*Options) {}, "[192.168.64.4 192.168.64.5]"},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"udp"}}`, func(*Options) {}, "[]"},
	} {
		w := newWorld(t, c.conf, c.mod)
		w.put(vxlanPeer("10.5.4.0-24", 4))
		w.put(vxlanPeer("10.5.5.0-24", 5))
		w.held = true // no lease, so the node's own record is not among them
		w.tell()
		if got := fmt.Sprint(w.n.reach()); got != c.want {
			t.Errorf("%s: %s, want %s", c.conf, got, c.want)
		}
	}
}

// interop P3: a device that is made again has the MAC that the peers know, the
// MTU is derived from the uplink's, and all peers are back.
func TestRecreatedDevice(t *testing.T) {
	w := readyWorld(t)
	want, requests := w.host.Dump(), len(w.requests)
	w.unplug("flannel.1")
	w.run(hint(HostLane))
	w.pass(time.Second)
	if w.host.Dump() != want || len(w.requests) != requests {
		t.Errorf("requests %v, host:\n%s\nwant\n%s", w.requests[requests:], w.host.Dump(), want)
	}
}

// interop P4: a device that another daemon left is adjusted in place.
func TestAdjustsAnExistingDevice(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.7.0-24", 3))
	left := dataplane.Link{Name: "flannel.1", MTU: 1400, Up: true, MAC: dataplane.MAC{2, 1, 1, 1, 1, 1},
		Params: dataplane.VXLAN{VNI: 1, Parent: "eth0", Local: netip.MustParseAddr("192.168.64.3"), Port: 8472,
			Learning: true}}
	w.host.AddLink(left)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	got := w.host.Links["flannel.1"]
	if got.MTU != 1450 || vxlanOf(got).Learning || got.MAC.String() != "c6:00:00:00:00:03" {
		t.Errorf("device %s", got)
	}
	for _, plan := range w.plans {
		for _, op := range plan {
			if _, ok := op.Object.(dataplane.Link); ok && op.Verb != dataplane.Replace {
				t.Errorf("not in place: %s", op)
			}
		}
	}
}

// Another program removes or overwrites the subnet file: the next look sees it.
func TestSubnetFileComesBack(t *testing.T) {
	w := readyWorld(t)
	want := w.files[SubnetFile]
	for _, harm := range []func(){
		func() { delete(w.files, SubnetFile) },
		func() { w.files[SubnetFile] = "" },
		func() { w.files[SubnetFile] = want + "FLANNEL_MTU=9000\n" },
	} {
		harm()
		w.pass(time.Minute)
		if w.files[SubnetFile] != want {
			t.Errorf("subnet file:\n%s\nwant\n%s", w.files[SubnetFile], want)
		}
	}
}

// The subnet file says what pods may use, so it waits for our own part of the
// host alone, and not for routes to peers.
func TestSubnetFileDoesNotWaitForPeers(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.4.0-24", 5))
	w.applyErr = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.Route); ok {
			return fmt.Errorf("%s: %w", op, driver.ErrBusy)
		}
		return nil
	}
	w.tell()
	w.pass(5 * time.Second)
	if w.files[SubnetFile] == "" || w.status().Ready {
		t.Errorf("subnet file %q, status %+v", w.files[SubnetFile], w.status())
	}
}

// A changed network config is followed; a bad one leaves the last standing.
func TestConfigChange(t *testing.T) {
	w := readyWorld(t)
	want := w.host.Dump()
	w.rev++
	w.snap.Revision, w.snap.Config = w.rev, lease.Document{Data: []byte(`{"Network":"nonsense"}`), Revision: w.rev}
	w.tell()
	w.pass(time.Minute)
	if w.host.Dump() != want || w.count("config-refused") != 1 || w.status().Ready {
		t.Errorf("%s\n%s", w.host.Dump(), w.log())
	}
	w.rev++
	w.snap.Revision, w.snap.Config = w.rev,
		lease.Document{
			Data:     []byte(`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan","VNI":2},"Formerly":[]}`),
			Revision: w.rev,
		}
	for range 2 { // the move to another subnet
		w.tell()
		w.pass(5 * time.Second)
	}
	if d := w.host.Dump(); !strings.Contains(d, "link flannel.1 ") || !strings.Contains(d, "link flannel.2 ") {
		t.Errorf("peers still use the previous device, host:\n%s", d)
	}
	w.snap.Leases = slices.DeleteFunc(w.snap.Leases, func(l *lease.Lease) bool { return l.Key != w.status().Subnet })
	for range 4 { // the end of the previous backend
		w.tell()
		w.pass(transition.Linger / 2)
	}
	w.wantReady()
	if d := w.host.Dump(); strings.Contains(d, "flannel.1 ") || strings.Contains(d, "10.5.") ||
		!strings.Contains(d, "link flannel.2") {
		t.Errorf("host:\n%s", d)
	}
}

func TestFirstConfig(t *testing.T) {
	for _, c := range []struct{ conf, want string }{
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"aws-vpc","RouteTableID":7}}`,
			`network config: Backend RouteTableID 7: want a text or a list of texts`},
		{`{"Network":"10.5.0.0/16","Backend":{"Type":"pigeon"}}`,
			`network config: unknown backend type "pigeon"; known are vxlan, host-gw, udp, ipip, extension, alloc, wireguard, ` +
				`ipsec, gce, aws-vpc, ali-vpc, tencent-vpc`},
	} {
		w := newWorld(t, c.conf)
		w.tell()
		if w.exit == nil || w.exit.Status != 1 || w.exit.Reason != c.want {
			t.Errorf("%s: exit %v, want %s", c.conf, w.exit, c.want)
		}
	}
	w := newWorld(t, "")
	w.snap.Config = lease.Document{}
	w.tell()
	w.pass(time.Minute)
	w.tell()
	if w.exit != nil || w.count("config-refused") != 1 || w.status().Phase != PhaseIdle {
		t.Errorf("without a config: exit %v\n%s", w.exit, w.log())
	}
}

func TestNoUplinkAtStart(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.Uplink.Ifaces = []string{"eth7"} })
	w.tell()
	if w.exit == nil || w.exit.Status != 1 || !strings.HasPrefix(w.exit.Reason, "no usable interface: ") {
		t.Errorf("exit %v", w.exit)
	}
}

// With several interfaces asked for, the log says why the first is not in use.
func TestPassedOverUplinkIsLogged(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.Uplink.Ifaces = []string{"eth7", "eth0"} })
	w.tell()
	if want := `; passed over: --iface "eth7": there is no interface of that name`; !strings.Contains(w.log(), want) {
		t.Errorf("want %q in\n%s", want, w.log())
	}
}

// A device that can carry no IPv6 is reported once, with the remedy, and not once
// for each address and route that the kernel refuses on it.
func TestDeviceWithoutIPv6IsReportedOnce(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"vxlan"}}`)
	w.facts.Links[0].MTU = 1300
	w.applyErr = func(op dataplane.Op) error {
		if op.Verb != dataplane.Delete && linkOf(op.Object) == "flannel-v6.1" {
			return fmt.Errorf("%s: %w", op, driver.ErrDenied)
		}
		return nil
	}
	w.tell()
	w.pass(time.Minute)
	s := w.status()
	lacks := slices.DeleteFunc(slices.Clone(s.Reasons), func(r string) bool {
		return !strings.Contains(r, "the kernel gives flannel-v6.1 no IPv6, because its MTU of 1230 is below 1280")
	})
	if s.Ready || len(lacks) != 1 || strings.Contains(strings.Join(s.Reasons, "; "), driver.ErrDenied.Error()) {
		t.Errorf("ready %t, reasons %q, want one that names the MTU, and no refused object", s.Ready, s.Reasons)
	}
}

// The log says when a host that had to be changed is as desired.
func TestLogOfAProgrammedHost(t *testing.T) {
	w := readyWorld(t)
	before := w.count("programmed")
	w.host.Routes.DeleteFunc(every)
	w.pass(time.Minute)
	if got := w.count("programmed") - before; got != 1 {
		t.Errorf("logged %d times after a repair, want once\n%s", got, w.log())
	}
	w.pass(10 * time.Minute)
	if got := w.count("programmed") - before; got != 1 {
		t.Errorf("logged %d times though nothing had to be changed, want once", got)
	}
}

// A config document may be absent or empty, which are different mistakes.
func TestNoConfig(t *testing.T) {
	for revision, want := range map[int64]string{
		0: "the datastore holds no network config; put one at <etcd-prefix>/config",
		7: "network config: malformed JSON at byte 0: unexpected end of JSON input",
	} {
		w := newWorld(t, vxlanConfig)
		w.snap.Config = lease.Document{Revision: revision}
		w.tell()
		w.pass(time.Minute)
		if got := w.logged("config-refused"); len(got) != 1 || got[0] != want || w.exit != nil {
			t.Errorf("revision %d: logged %q, exit %v, want %q", revision, got, w.exit, want)
		}
	}
}
