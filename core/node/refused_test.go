package node

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// An op for which the kernel has no resources stops no other, and the node tries it
// again after ever longer pauses.
func TestOneFailureStopsNothing(t *testing.T) {
	w := readyWorld(t)
	refuse := netip.MustParsePrefix("10.5.4.0/24")
	w.applyErr = func(op dataplane.Op) error {
		if r, ok := op.Object.(dataplane.Route); ok && r.Dst == refuse {
			return fmt.Errorf("%s: %w", op, driver.ErrBusy)
		}
		return nil
	}
	w.host.Routes.DeleteFunc(every)
	plans := len(w.plans)
	w.pass(10 * time.Minute)
	if w.host.Routes.Len() != 1 {
		t.Errorf("host:\n%s", w.host.Dump())
	}
	if tried := len(w.plans) - plans; tried < 5 || tried > 60 {
		t.Errorf("tried %d times in ten minutes", tried)
	}
	if s := w.status(); s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), "10.5.4.0/24") {
		t.Errorf("status %+v", s)
	}
	w.applyErr = nil
	w.pass(time.Minute)
	w.wantReady()
}

// A host without IPv6 has no setting accept_ra. The node says so once, does not
// ask for it again, and is ready.
func TestAbsentSetting(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	tries := 0
	w.applyErr = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.Sysctl); ok {
			tries++
			return fmt.Errorf("%s: %w", op, driver.ErrNotFound)
		}
		return nil
	}
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if n := w.count("setting-absent"); n != 1 || tries != 1 {
		t.Errorf("tried %d times and said so %d times, want once each", tries, n)
	}
}

// In a container /proc/sys may be read-only. The node logs a setting that it may not
// change, gives it up, and becomes ready without it.
func TestDeniedSetting(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.applyErr = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.Sysctl); ok {
			return fmt.Errorf("%s: %w", op, driver.ErrDenied)
		}
		return nil
	}
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	told := 0
	for _, e := range w.events {
		if e.Kind == "setting-denied" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// The node makes a new device after the kernel has refused a change in place.
func TestRefusedChangeRecreates(t *testing.T) {
	w := readyWorld(t)
	w.applyErr = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.Link); ok && op.Verb == dataplane.Replace {
			return fmt.Errorf("%s: %w", op, driver.ErrUnsupported)
		}
		return nil
	}
	moved := netip.MustParseAddr("192.168.64.33")
	addrs := slices.Clone(w.facts.Links[0].Addrs)
	addrs[0].Prefix = netip.PrefixFrom(moved, 24)
	w.facts.Links[0].Addrs = addrs
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if vxlanOf(w.host.Links["flannel.1"]).Local != moved {
		t.Errorf("host:\n%s", w.host.Dump())
	}
}

// A kernel that refuses an MTU keeps its device, and the subnet file says what the device has.
func TestRefusedMTUIsKept(t *testing.T) {
	w := readyWorld(t)
	created := 0
	w.applyErr = func(op dataplane.Op) error {
		link, ok := op.Object.(dataplane.Link)
		switch {
		case ok && op.Verb == dataplane.Replace && link.MTU > 1450:
			return fmt.Errorf("%s: %w", op, driver.ErrInvalid)
		case ok && op.Verb != dataplane.Replace:
			created++
		}
		return nil
	}
	w.facts.Links[0].MTU = 9000
	w.pass(time.Minute)
	w.wantReady()
	if created > 0 || w.count("mtu-refused") != 1 {
		t.Errorf("%d devices deleted or created\n%s", created, w.log())
	}
	if file := w.files[SubnetFile]; !strings.Contains(file, "FLANNEL_MTU=1450\n") {
		t.Errorf("subnet file: %s", file)
	}
	w.facts.Links[0].MTU, w.applyErr = 8000, nil
	w.pass(time.Minute)
	if got := w.host.Links["flannel.1"].MTU; got != 7950 {
		t.Errorf("MTU %d after the uplink changed", got)
	}
}

// A failed look changes nothing on the host, and the node looks again.
func TestLookFails(t *testing.T) {
	w := readyWorld(t)
	w.n.Step(w.now.Add(time.Minute), Input{})
	w.now = w.now.Add(time.Minute)
	if r := w.n.Ready(); r.Lanes[HostLane].Look == nil {
		t.Fatal("no look after a minute")
	}
	w.run(looked(HostLane, Looked{Err: errors.New("netlink: interrupted")}))
	if s := w.status(); s.Ready {
		t.Error("ready without having read the host")
	}
	w.pass(time.Second)
	w.wantReady()
}

// Peers that come faster than they can be programmed are not a host that
// resists: when they stop coming, the rest follows at once.
func TestStormIsNoFailure(t *testing.T) {
	w := readyWorld(t)
	last := len(w.plans) + 20
	stormed := 0
	w.applyErr = func(dataplane.Op) error {
		if plan := len(w.plans); plan > stormed && plan <= last { // once in each plan
			stormed = plan
			w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 100+plan), byte(100+plan)))
			w.n.Step(w.now, Input{View: w.view()})
		}
		return nil
	}
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.tell()
	for stormed < last {
		before := len(w.plans)
		w.pass(200 * time.Millisecond)
		if len(w.plans) == before {
			t.Fatalf("nothing happens after plan %d", before)
		}
	}
	w.pass(200 * time.Millisecond)
	w.wantReady()
}

// TestRefusedPeer lets the kernel refuse objects of one peer. That is a problem of
// this peer: the node is ready and healthy.
func TestRefusedPeer(t *testing.T) {
	for _, kind := range []string{"route 10.5.7.0/24", "neigh 10.5.7.0 ", "fdb c6:00:00:00:00:07 "} {
		w := readyWorld(t)
		refuses, asked := true, 0
		w.applyErr = func(op dataplane.Op) error {
			if !refuses || !strings.HasPrefix(op.Object.String(), kind) {
				return nil
			}
			asked++
			if told := w.count("peer-refused") > 0; told && !w.status().Ready {
				t.Errorf("%s refused: not ready during another attempt", kind)
			}
			return fmt.Errorf("%w", driver.ErrInvalid)
		}
		w.put(vxlanPeer("10.5.7.0-24", 7))
		w.put(vxlanPeer("10.5.8.0-24", 8))
		w.tell()
		for range 60 {
			w.pass(time.Minute)
			w.wantReady()
			if s := w.status(); s.FailingFor != 0 || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "10.5.7.0-24") {
				t.Fatalf("%s refused: failing for %d, problems %q", kind, s.FailingFor, s.Problems)
			}
		}
		if n := w.count("peer-refused"); n != 1 || asked < 12 || asked > 40 {
			t.Errorf("%s refused: told %d times, asked %d times in an hour", kind, n, asked)
		}
		text := w.logged("peer-refused")[0]
		if !strings.HasPrefix(text, "peer 10.5.7.0-24: ") || strings.Contains(text, " more") {
			t.Errorf("%s refused: logged %q, want the one peer", kind, text)
		}
		dump := w.host.Dump()
		if !strings.Contains(dump, "10.5.8.0/24") || strings.Contains(dump, "10.5.7.0") || strings.Contains(dump, "00:07 ") {
			t.Errorf("%s refused: the host holds\n%s", kind, dump)
		}
		refuses = false
		w.pass(6 * time.Minute)
		if dump := w.host.Dump(); len(w.status().Problems) != 0 || !strings.Contains(dump, "route 10.5.7.0/24") {
			t.Errorf("%s accepted: problems %q, the host holds\n%s", kind, w.status().Problems, dump)
		}
	}
}

// TestRefusedByTheHost lets the kernel refuse the device's own address, and with
// it the neighbours behind the device: no peer is to blame.
func TestRefusedByTheHost(t *testing.T) {
	w := readyWorld(t)
	refuses := true
	w.applyErr = func(op dataplane.Op) error {
		if name := op.Object.String(); refuses && (strings.HasPrefix(name, "addr ") || strings.HasPrefix(name, "neigh ")) {
			return fmt.Errorf("%w", driver.ErrInvalid)
		}
		return nil
	}
	w.unplug("flannel.1")
	w.put(vxlanPeer("10.5.7.0-24", 7))
	w.tell()
	w.run(hint(HostLane))
	w.pass(time.Minute)
	if s := w.status(); s.Ready || s.Problems != nil || w.count("peer-refused") != 0 {
		t.Errorf("ready %t, problems %q\n%s", s.Ready, s.Problems, w.log())
	}
	refuses = false
	w.pass(time.Minute)
	w.wantReady()
	w.applyErr = func(op dataplane.Op) error {
		if strings.HasPrefix(op.Object.String(), "neigh 10.5.7.0 ") {
			return fmt.Errorf("%w", driver.ErrInvalid)
		}
		return nil
	}
	w.host.Neighs.DeleteFunc(func(dataplane.NeighKey, dataplane.Neigh) bool { return true })
	w.pass(time.Minute)
	if s := w.status(); !s.Ready || len(s.Problems) != 1 {
		t.Errorf("ready %t, problems %q, want one of a peer now that the device is well", s.Ready, s.Problems)
	}
}

// TestManyRefusedPeers lets the kernel refuse many peers at once, as when the
// uplink lost its address, and accept them again: one line for each.
func TestManyRefusedPeers(t *testing.T) {
	w := readyWorld(t)
	refuses := true
	w.applyErr = func(op dataplane.Op) error {
		if refuses && strings.HasPrefix(op.Object.String(), "route 10.5.") {
			return fmt.Errorf("%w", driver.ErrUnreachable)
		}
		return nil
	}
	for i := byte(7); i < 107; i++ {
		w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", i), i))
	}
	w.tell()
	w.pass(time.Minute)
	told := w.logged("peer-refused")
	problems := len(w.status().Problems)
	if len(told) != 1 || problems != 100 || !strings.HasSuffix(told[0], "; and 99 more") {
		t.Errorf("%d problems, told %q, want one line", problems, told)
	}
	refuses = false
	w.pass(6 * time.Minute)
	if n, problems := w.count("peer-accepted"), len(w.status().Problems); n != 1 || problems != 0 {
		t.Errorf("%d problems, told %d times that peers are accepted", problems, n)
	}
}

// A refused peer stays refused while its link fails: nothing says that the kernel
// accepts the peer now.
func TestRefusedPeerBehindAFailingLink(t *testing.T) {
	w := readyWorld(t)
	refuse := netip.MustParsePrefix("10.5.4.0/24")
	broken := false
	w.applyErr = func(op dataplane.Op) error {
		switch o := op.Object.(type) {
		case dataplane.Link:
			if broken {
				return fmt.Errorf("%s: %w", op, driver.ErrBusy)
			}
		case dataplane.Route:
			if broken {
				return fmt.Errorf("%s: %w", op, driver.ErrNotFound)
			}
			if o.Dst == refuse {
				return fmt.Errorf("%s: %w", op, driver.ErrUnreachable)
			}
		}
		return nil
	}
	w.host.Routes.DeleteFunc(every)
	w.pass(time.Minute)
	if s := w.status(); !s.Ready || len(s.Problems) != 1 {
		t.Fatalf("status %+v\n%s", s, w.log())
	}
	broken = true
	w.unplug("flannel.1")
	w.pass(15 * time.Minute)
	if s := w.status(); s.Ready || len(s.Problems) != 1 || w.count("peer-accepted") != 0 {
		t.Errorf("status %+v\n%s", s, w.log())
	}
	broken = false
	w.pass(time.Minute)
	if s := w.status(); !s.Ready || len(s.Problems) != 1 {
		t.Errorf("status %+v\n%s", s, w.log())
	}
	w.applyErr = nil
	w.pass(15 * time.Minute)
	if s := w.status(); !s.Ready || len(s.Problems) != 0 || w.count("peer-accepted") != 1 {
		t.Errorf("status %+v\n%s", s, w.log())
	}
}

// An address of the host covers one peer's subnet. That peer is not reached; the
// node is ready for the others.
func TestConflictIsThePeersProblem(t *testing.T) {
	w := readyWorld(t)
	taken := dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.4.0/24")}
	w.host.Routes.Delete(taken)
	w.host.AddRoute(dataplane.Route{RouteKey: taken, Link: "eth0", Scope: 253, Protocol: dataplane.ProtocolKernel})
	w.pass(time.Minute)
	s := w.status()
	if !s.Ready || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "peer 10.5.4.0-24: route") {
		t.Errorf("ready %t (%v), problems %q", s.Ready, s.Reasons, s.Problems)
	}
	if w.count("conflict") != 1 {
		t.Errorf("the conflict is not logged once\n%s", w.log())
	}
	w.host.Routes.Delete(taken)
	w.pass(time.Minute)
	if s := w.status(); !s.Ready || len(s.Problems) != 0 {
		t.Errorf("afterwards: %+v", s)
	}
}

// A refused peer whose record changes is a new matter: the node tries the new
// record at once, and forgets one that is gone.
func TestRefusedPeerWithANewRecord(t *testing.T) {
	w := readyWorld(t)
	w.applyErr = func(op dataplane.Op) error {
		if strings.Contains(op.Object.String(), "c6:00:00:00:00:07") {
			return fmt.Errorf("%w", driver.ErrInvalid)
		}
		return nil
	}
	w.put(vxlanPeer("10.5.7.0-24", 7))
	w.tell()
	w.pass(30 * time.Minute)
	if got := len(w.status().Problems); got != 1 {
		t.Fatalf("%d problems, want that of the refused peer", got)
	}
	w.put(vxlanPeer("10.5.7.0-24", 8))
	w.tell()
	w.pass(2 * time.Second)
	if dump := w.host.Dump(); len(w.status().Problems) != 0 || !strings.Contains(dump, "route 10.5.7.0/24") {
		t.Errorf("problems %q with the new record, the host holds\n%s", w.status().Problems, dump)
	}
	w.put(vxlanPeer("10.5.7.0-24", 7))
	w.tell()
	w.pass(time.Minute)
	w.remove(mustKey("10.5.7.0-24"))
	w.tell()
	w.pass(2 * time.Second)
	if s := w.status(); len(s.Problems) != 0 || len(w.n.host.refusals.of) != 0 {
		t.Errorf("problems %q of a peer that is gone", s.Problems)
	}
}

// TestFormerRouteInTheWay leaves a former route in place, which the kernel does not delete
// or, as after a change since the look, does not find. The route that fails behind it is no
// problem of the peer: its record is fit.
func TestFormerRouteInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		former string // destination
		answer error  // to its delete
	}{
		"not deleted":               {"fd00:5:0:3::/64", driver.ErrBusy},
		"not found":                 {"fd00:5:0:3::/64", driver.ErrNotFound},
		"whole network not deleted": {"fd00:5::/48", driver.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) { testFormerRouteInTheWay(t, netip.MustParsePrefix(c.former), c.answer) })
	}
}

func testFormerRouteInTheWay(t *testing.T, dst netip.Prefix, answer error) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:5::/48","Backend":{"Type":"vxlan"}}`)
	peer := vxlanPeer("10.5.3.0-24&fd00:5:0:3::-64", 4)
	peer.Attrs.PublicIPv6 = netip.MustParseAddr("fd00:a::4")
	peer.Attrs.BackendV6Data = peer.Attrs.BackendData
	w.put(peer)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.host.Routes.DeleteFunc(func(_ dataplane.RouteKey, r dataplane.Route) bool { return r.Dst == peer.Key.V6 })
	w.host.AddRoute(dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: dst}, Link: "eth0", Via: peer.Attrs.PublicIPv6, Protocol: dataplane.Protocol,
	})
	stuck := true
	w.applyErr = func(op dataplane.Op) error {
		r, ok := op.Object.(dataplane.Route)
		switch {
		case !ok || r.Dst.Addr().Is4() || !stuck:
			return nil
		case op.Verb == dataplane.Delete:
			return fmt.Errorf("%s: %w", op, answer)
		}
		return fmt.Errorf("%s: %w", op, driver.ErrInvalid)
	}
	w.pass(5 * time.Minute)
	if s := w.status(); s.Ready || len(s.Problems) != 0 || w.count("peer-refused") != 0 {
		t.Errorf("ready %t, problems %q, want a failing host\n%s", s.Ready, s.Problems, w.log())
	}
	stuck = false
	w.pass(time.Minute)
	w.wantReady()
}

// TestRefusedWay lets the kernel refuse the route of a previous backend. The WireGuard peer stays:
// without it the hosts exchange no keys, and the node would never leave the previous backend.
func TestRefusedWay(t *testing.T) {
	const peer = "wgpeer nFNnHrRRUJG5zes2+JREYyp73tH/nRiEixONNHpxyWY= endpoint 192.168.64.7:51820 " +
		"allowed 10.5.7.0/24 keepalive 25 dev flannel-wg\n"
	for _, c := range []struct {
		route string
		stays bool
	}{
		{"route 10.5.7.0/24 via 10.5.7.0 dev flannel.1 onlink\n", true},
		{"route 10.5.7.0/24 dev flannel-wg\n", false},
	} {
		state, err := dataplane.ParseDump(peer + c.route)
		if err != nil {
			t.Fatal(err)
		}
		subnet := netip.MustParsePrefix("10.5.7.0/24")
		route, _ := state.Routes.Get(dataplane.RouteKey{Dst: subnet})
		leaveOut(state, map[netip.Prefix]refusal{subnet: {object: route}})
		if stays := state.WGPeers.Len() == 1; stays != c.stays || state.Routes.Len() != 0 {
			t.Errorf("%s refused: the desired state is %q", c.route, state.Dump())
		}
	}
}
