package node

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// The node forgets previous devices and networks once the host holds nothing of them.
// Until then they are its own.
func TestForgetsFormerNetworks(t *testing.T) {
	const dual = `{"Network":"10.%d.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:%d::/48",` +
		`"Backend":{"Type":"vxlan","VNI":%d},"Formerly":[]}`
	w := newWorld(t, fmt.Sprintf(dual, 5, 5, 5))
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: fmt.Appendf(nil, dual, 6, 6, 6), Revision: w.rev}
	w.tell()
	w.pass(time.Minute)
	w.tell() // the node's own record
	w.pass(2 * time.Minute)
	w.wantReady()
	networks := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16"), netip.MustParsePrefix("fd00:6::/48")}
	links := slices.Sorted(maps.Keys(w.n.host.links))
	if !slices.Equal(w.n.host.networks, networks) || !slices.Equal(links, []string{"flannel-v6.6", "flannel.6"}) {
		t.Errorf("the node owns %s and %s, want only the present networks and devices", w.n.host.networks, links)
	}
}

// A former network that has the present one within it is forgotten as well. Another network of the host may want
// the rest.
func TestForgetsAWiderFormerNetwork(t *testing.T) {
	w := newWorld(t, `{"Network":"10.4.0.0/14","Backend":{"Type":"vxlan"}}`)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan"}}`)
	w.pass(time.Minute)
	w.tell() // the node's own record
	w.pass(time.Minute)
	w.wantReady()
	if networks := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}; !slices.Equal(w.n.host.networks, networks) {
		t.Errorf("the node owns %s, want only %s", w.n.host.networks, networks)
	}
}

// The rules of a former network end its ownership with them, also if the host has long been as desired by then.
func TestForgetsAFormerNetworkAfterItsRules(t *testing.T) {
	w := guarded(t)
	w.firewall.refuse = func(dataplane.Op) error { return errors.New("another program holds the lock") }
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.pass(time.Minute)
	w.tell() // the node's own record
	w.pass(time.Minute)
	if !w.n.hostLane().clean || w.n.lanes[FirewallLane].clean || len(w.n.host.networks) != 2 {
		t.Fatalf("the host is as desired: %t, the firewall: %t; networks %s", w.n.hostLane().clean,
			w.n.lanes[FirewallLane].clean, w.n.host.networks)
	}
	w.firewall.refuse = nil
	for w.n.hostLane().lookDue.Sub(w.n.now) < 20*time.Second { // until the host has just been looked at
		w.pass(time.Second)
	}
	w.pass(10 * time.Second)
	if networks := []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}; !slices.Equal(w.n.host.networks, networks) {
		t.Errorf("the node owns %s, want only %s", w.n.host.networks, networks)
	}
}

// The network changes, and the host is as desired before the node has a subnet in the new one:
// its former address goes nevertheless. The host would send its own packets from it.
func TestFormerAddressGoes(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Data: []byte(`{"Network":"10.6.0.0/16","Backend":{"Type":"vxlan"}}`), Revision: w.rev}
	w.held = true
	w.tell()
	w.pass(time.Second)
	w.held = false
	w.run(Input{Requested: w.serve()})
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	for a := range w.host.Addrs {
		if a.Prefix.Addr() != w.own().Key.V4.Addr() {
			t.Errorf("the host has kept %s", a)
		}
	}
}

// A look reads the devices of the backend and the former ones, each once.
func TestLooksAtFormerDevices(t *testing.T) {
	w := readyWorld(t)
	w.n.host.links["flannel.9"] = true
	want := []string{"flannel.1", "flannel-v6.1", "flannel.9"}
	if got := w.n.hostLane().part.look().Extent.Links; !slices.Equal(got, want) {
		t.Errorf("the look reads %q, want %q", got, want)
	}
}

// A run left a device, and neither the state file nor a record tells of it. Its name and its address in our network
// do. A device with an address in another network may be another daemon's.
func TestDeviceOfAForgottenRun(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	vxlan, bridge := dataplane.VXLAN{VNI: 7}, dataplane.OtherLink("bridge")
	w.addDevice("flannel.7", "10.5.9.0/32", vxlan)
	w.addDevice("flannel.8", "10.9.8.0/32", dataplane.VXLAN{VNI: 8}) // of another network
	w.addDevice("flannel.9", "10.5.8.0/32", vxlan)                   // flannel gives it another name
	w.addDevice("flannel-v6.7", "10.5.7.1/24", vxlan)                // flannel gives it another address
	w.addDevice("flannel0", "10.5.6.0/32", bridge)
	w.addDevice("cni0", "10.5.9.1/24", bridge)
	w.tell()
	w.pass(time.Second)
	want := []string{"cni0", "flannel-v6.7", "flannel.1", "flannel.8", "flannel.9", "flannel0"}
	if got := slices.Sorted(maps.Keys(w.host.Links)); !slices.Equal(got, want) {
		t.Errorf("the host has %q, want it without flannel.7 alone", got)
	}
	if w.count("device-found") != 1 {
		t.Errorf("want one line about the device:\n%s", w.log())
	}
}

// The operator's commands may make a device with a name that a backend uses: upstream's sample of wireguard does. A
// daemon that was killed finds that device when it starts again.
func TestDeviceOfTheOperator(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"extension",`+
		`"PostStartupCommand":"ip link add flannel-wg type wireguard"}}`)
	w.addDevice("flannel-wg", "10.5.9.0/32", dataplane.WireGuard{})
	w.tell()
	w.pass(time.Second)
	if _, ok := w.host.Links["flannel-wg"]; !ok || w.count("device-found") != 0 {
		t.Errorf("the node took flannel-wg:\n%s", w.log())
	}
}

// Another network of the host may have taken the device by now.
func TestDeviceThatAnotherNetworkTakes(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{Devices: []string{"flannel.7"}} }
	w.addDevice("flannel.7", "10.5.9.0/32", dataplane.VXLAN{VNI: 7})
	w.tell()
	w.pass(time.Second)
	if _, ok := w.host.Links["flannel.7"]; !ok || w.count("device-found") != 0 {
		t.Errorf("the node took flannel.7:\n%s", w.log())
	}
}

// A device that comes while the node runs is no former run's.
func TestDeviceThatComesLater(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.addDevice("flannel.7", "10.5.9.0/32", dataplane.VXLAN{VNI: 7})
	w.pass(2 * time.Minute)
	w.wantReady()
	if _, ok := w.host.Links["flannel.7"]; !ok || w.count("device-found") != 0 {
		t.Errorf("the node took flannel.7:\n%s", w.log())
	}
}

// A restart loses the state file on a host that is otherwise as desired.
func TestDeviceBesideAHostAsDesired(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.addDevice("flannel.7", "10.5.9.0/32", dataplane.VXLAN{VNI: 7})
	w.files = map[File]string{}
	w.start()
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if _, ok := w.host.Links["flannel.7"]; ok || w.count("device-found") != 1 {
		t.Errorf("the node left flannel.7:\n%s", w.log())
	}
}

// The state file names a device before the host has it: a process that dies before the device has its address
// leaves nothing else by which the next run, with another config, could know it.
func TestStateFileNamesDevicesFirst(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	made := map[string]bool{}
	w.applyErr = func(op dataplane.Op) error {
		link, isLink := op.Object.(dataplane.Link)
		if isLink && op.Verb == dataplane.Create {
			made[link.Name] = strings.Contains(w.files[StateFile], link.Name)
		}
		return nil
	}
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.tell() // the node saves its state, and usually not again for a second
	w.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7}}`)
	if want := map[string]bool{"flannel.7": true}; !maps.Equal(made, want) {
		t.Errorf("devices made, each with whether the state file names it: %v, want %v", made, want)
	}
}

// Others may have what the node has removed once the state file no longer names it: after a restart the node
// would take another network's device for one of its former run.
func TestHoldsWhatTheStateFileNames(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.wantReady()
	fails := false
	w.writeErr = func(f File) error {
		if f == StateFile && fails {
			return errors.New("no space left on device")
		}
		return nil
	}
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[]}`)
	fails = true
	w.pass(time.Minute)
	w.tell()
	w.pass(2 * time.Minute)
	if _, has := w.host.Links["flannel.1"]; has {
		t.Fatal("the host still has the previous device")
	}
	port := backend.UDPPort{Number: 8472, Shared: true}
	former := func(h Holding) bool {
		return slices.Contains(h.Links, "flannel.1") && slices.Contains(h.Ports, port) &&
			slices.Contains(h.Networks, netip.MustParsePrefix("10.5.0.0/16"))
	}
	if h := w.n.Pulse().Holds; !former(h) {
		t.Errorf("with the former state file, the node holds %v", h)
	}
	fails = false
	w.pass(2 * time.Minute)
	want := Holding{Networks: []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}}
	h := w.n.Pulse().Holds
	if !slices.Equal(h.Links, want.Links) || !slices.Equal(h.Networks, want.Networks) || len(h.Ports) > 0 {
		t.Errorf("with the present state file, the node holds %v, want %v", h, want)
	}
}

// A state file that cannot be written keeps the node from no device.
func TestDeviceWithoutStateFile(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.writeErr = func(f File) error {
		if f == StateFile {
			return errors.New("no space left on device")
		}
		return nil
	}
	w.tell()
	w.pass(time.Second)
	if _, made := w.host.Links["flannel.1"]; !made {
		t.Errorf("the host has no device:\n%s", w.log())
	}
}

// addDevice adds a device that this process has not made.
func (w *world) addDevice(name, addr string, params dataplane.LinkParams) {
	w.host.AddLink(dataplane.Link{Name: name, Up: true, Params: params})
	w.facts.Links = append(w.facts.Links, driver.Link{
		Name: name, Up: true, Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix(addr)}},
	})
}

func gatewayPeer(key string, n byte) lease.Lease {
	return lease.Lease{Key: mustKey(key), ID: int64(n), Attrs: lease.Attrs{
		PublicIP: netip.AddrFrom4([4]byte{192, 168, 64, n}), BackendType: "host-gw"}}
}

// While the store did not follow, the node changed its network and left deletes for later. When the store follows
// again, a look at the firewall ends before one at the host.
func TestForgetsNoNetworkWhoseRoutesAreLeft(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, withRules)
	w.firewall.bothFlavours()
	w.put(gatewayPeer("10.5.99.0-24", 99))
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	old := dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.99.0/24")}
	if _, has := w.host.Routes.Get(old); !has {
		t.Fatalf("no route:\n%s", w.host.Dump())
	}
	w.loose = true
	w.remove(mustKey("10.5.99.0-24"))
	w.put(gatewayPeer("10.6.99.0-24", 99))
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	if _, has := w.host.Routes.Get(old); !has {
		t.Fatalf("the former route has gone already:\n%s", w.host.Dump())
	}
	if w.n.holds().AtRest {
		t.Error("the node is at rest while it withholds a delete")
	}
	// a look at the firewall alone is under way
	var r Effects
	for {
		at := w.n.wake()
		w.now = at
		w.n.Step(w.now, Input{})
		r = w.n.Ready()
		w.events = append(w.events, r.Events...)
		if r.Lanes[FirewallLane].Look != nil && r.Lanes[HostLane].Look == nil {
			break
		}
		if in, some := w.perform(r); some {
			w.run(in)
		}
	}
	in, _ := w.perform(r)
	w.loose = false
	in.View = w.view()
	w.run(in) // the store follows, and the look at the firewall has ended
	w.pass(5 * time.Minute)
	w.tell()
	w.pass(5 * time.Minute)
	if _, has := w.host.Routes.Get(old); has {
		t.Errorf("the former route stays; the node owns %v, ready %t:\n%s", w.n.host.networks, w.status().Ready,
			w.host.Dump())
	}
}

// A look at the firewall under way when the network changes: the host is as desired first, and the lane of the
// firewall does not know yet that its rules are for another network.
func TestForgetsNoNetworkWhoseRulesAreLeft(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`, withRules)
	w.firewall.bothFlavours()
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.firewall.busy = true
	w.pass(10 * time.Second) // a look at the firewall is under way
	w.configure(`{"Network":"10.6.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.pass(2 * time.Second)
	w.tell()
	w.pass(2 * time.Second)
	if len(w.n.host.networks) != 2 {
		t.Errorf("the node owns %v while its rules are for the former network", w.n.host.networks)
	}
	if w.n.holds().AtRest {
		t.Error("the node is at rest while its rules are for the former network")
	}
	w.firewall.busy = false
	seen := driver.Observation{Facts: w.firewall.facts, State: w.firewall.chains.Clone()}
	w.run(looked(FirewallLane, Looked{Seen: seen}))
	w.pass(5 * time.Minute)
	w.tell()
	w.pass(5 * time.Minute)
	if strings.Contains(w.chains(), "10.5.") {
		t.Errorf("rules of the former network stay, ready %t:\n%s", w.status().Ready, w.chains())
	}
}
