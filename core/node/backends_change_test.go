package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/transition"
)

const (
	hostgwConfig    = `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`
	wireguardConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard"}}`
	portConfig      = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Port":4789}}`

	hostgwID    = `{"Type":"host-gw"}`
	vxlanID     = `{"Type":"vxlan"}`
	wireguardID = `{"Type":"wireguard"}`
)

// followed returns the record of a peer that has followed the change from vxlan to host-gw.
func followed(before lease.Lease) lease.Lease {
	after := before
	after.Attrs.BackendType, after.Attrs.BackendData = "host-gw", nil
	after.Attrs.Ways = lease.Ways{Former: []lease.FormerWay{
		{Backend: json.RawMessage(vxlanID), Data: before.Attrs.BackendData}}}
	return after
}

// wantChange checks what the status says about the change of the backend.
func (w *world) wantChange(when, want string) {
	w.t.Helper()
	got, err := json.Marshal(w.status().Change)
	if err != nil {
		w.t.Fatal(err)
	}
	if string(got) != want {
		w.t.Errorf("%s: the status says\n%s\nwant\n%s", when, got, want)
	}
}

// changeOf returns the text of a change from vxlan to host-gw in the status.
func changeOf(until, by, sends, behind string) string {
	return fmt.Sprintf(`{"To":%q,"Former":[{"From":%q,"Until":%s,"By":%q,"Sends":%s,"NotFollowed":%s}]}`,
		hostgwID, vxlanID, until, by, sends, behind)
}

// at returns the text of a moment in the status.
func at(t time.Time) string { return strconv.Quote(t.Format(time.RFC3339Nano)) }

// wantRouteBy checks which device the route to a peer leaves by.
func (w *world) wantRouteBy(when, subnet, link string) {
	w.t.Helper()
	for k, r := range w.host.Routes.All {
		if k.Dst.String() == subnet {
			if r.Link != link {
				w.t.Errorf("%s: packets to %s leave by %s, want %s", when, subnet, r.Link, link)
			}
			return
		}
	}
	w.t.Errorf("%s: no route to %s", when, subnet)
}

// wantOffered checks whether the node's record offers vxlan as a previous backend.
func (w *world) wantOffered(when string, offered bool) {
	w.t.Helper()
	if got := len(w.own().Attrs.Ways.Former) > 0; got != offered {
		w.t.Errorf("%s: the node's record says %s", when, lease.EncodeAttrs(w.own().Attrs))
	}
}

// wantDevice checks whether the host has the device of vxlan.
func (w *world) wantDevice(when string, has bool) {
	w.t.Helper()
	if _, got := w.host.Links["flannel.1"]; got != has {
		w.t.Errorf("%s: the host has flannel.1: %t", when, got)
	}
}

// The records of peers decide only how to send to these. A previous backend that no config names stays for an hour,
// and then ends in two steps: the node's record does not offer it, and a while later its device goes.
func TestStepsOfAChange(t *testing.T) {
	w := readyWorld(t)
	w.tell()
	w.wantChange("before", "null")
	w.configure(hostgwConfig)
	w.pass(time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	began := w.n.transition.Began().At
	until := at(began.Add(time.Hour))
	both := `["10.5.3.0-24","10.5.4.0-24"]`
	w.wantChange("no peer has followed", changeOf(until, "memory", both, both))
	w.wantRouteBy("no peer has followed", "10.5.3.0/24", "flannel.1")

	first, second := vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)
	w.put(followed(first))
	w.tell()
	w.pass(time.Second)
	w.wantChange("one has followed", changeOf(until, "memory", `["10.5.4.0-24"]`, `["10.5.4.0-24"]`))
	w.wantRouteBy("one has followed", "10.5.3.0/24", "eth0")
	w.wantRouteBy("one has followed", "10.5.4.0/24", "flannel.1")

	w.pass(began.Add(time.Hour).Sub(w.now) - time.Second)
	w.tell()
	w.wantOffered("before the limit", true)
	w.pass(2 * time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantOffered("after the limit", false)
	w.wantDevice("after the limit", true)
	w.wantRouteBy("after the limit", "10.5.4.0/24", "flannel.1") // it has nothing else
	w.put(followed(second))
	w.tell()
	w.pass(transition.Linger + time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.wantChange("after", "null")
	w.wantDevice("after", false)
	want := []string{"keeping " + vxlanID + " beside " + hostgwID,
		"the previous backend " + vxlanID + " ends beside " + hostgwID + ": 1h0m0s have passed since this node began with " +
			"the present one; 1 peers have not followed: 10.5.4.0-24",
		"the change from " + vxlanID + " to " + hostgwID + " is over"}
	got := append(append(w.logged("backend-change"), w.logged("backend-ends")...), w.logged("backend-changed")...)
	if !slices.Equal(got, want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// A config that has the member Formerly decides alone. To an encrypting backend, a change that it names has a limit.
func TestFormerlyDecides(t *testing.T) {
	const named = `,"Formerly":[{"Type":"vxlan"}]}`
	for _, c := range []struct {
		name, config string
		keeps        []bool // after a minute, two minutes, and two hours
	}{
		{"nothing said", hostgwConfig, []bool{true, true, false}},
		{"named", strings.TrimSuffix(hostgwConfig, "}") + named, []bool{true, true, true}},
		{"ended", strings.TrimSuffix(hostgwConfig, "}") + `,"Formerly":[]}`, []bool{true, false, false}},
		{"another named", strings.TrimSuffix(hostgwConfig, "}") + `,"Formerly":[{"Type":"udp"}]}`,
			[]bool{true, false, false}},
		{"named beside wireguard", strings.TrimSuffix(wireguardConfig, "}") + named, []bool{true, true, false}},
	} {
		w := readyWorld(t)
		w.firewall.bothFlavours()
		w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
		w.configure(c.config)
		for i, after := range []time.Duration{50 * time.Second, 2 * time.Minute, 2 * time.Hour} {
			for range 3 {
				w.tell()
				w.pass(after / 3)
			}
			if got := w.n.transition.Set().Has(vxlanID); got != c.keeps[i] {
				t.Errorf("%s, step %d: keeps vxlan: %t\n%s", c.name, i, got, w.log())
			}
		}
	}
}

// A node that joins opens what the config names, and nothing that records name.
func TestNewNodeInAChange(t *testing.T) {
	for config, opens := range map[string]bool{
		hostgwConfig: false, strings.TrimSuffix(hostgwConfig, "}") + `,"Formerly":[{"Type":"vxlan"}]}`: true,
	} {
		w := newWorld(t, config)
		w.put(vxlanPeer("10.5.3.0-24", 4))
		w.put(followed(vxlanPeer("10.5.4.0-24", 5)))
		w.tell()
		w.pass(time.Second)
		w.tell()
		w.pass(time.Second)
		if got := w.n.transition.Set().Has(vxlanID); got != opens {
			t.Errorf("%s: opens vxlan: %t\n%s", config, got, w.log())
		}
		w.wantDevice(config, opens)
	}
}

// A daemon that starts in the middle of a change goes on with it, and the limit counts from when the change began.
// Without its state file it does not know the previous backend, whatever its record says.
func TestRestartDuringAChange(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		w := readyWorld(t)
		w.configure(hostgwConfig)
		w.pass(time.Second)
		w.tell()
		w.pass(2 * time.Minute) // the state file is written
		before, began := w.own(), w.n.transition.Began()
		w.events = nil
		if forgets {
			w.files = map[File]string{}
		}
		w.start()
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		if forgets {
			w.wantChange("after the restart", "null")
			continue
		}
		both := `["10.5.3.0-24","10.5.4.0-24"]`
		w.wantChange("after the restart", changeOf(at(began.At.Add(time.Hour)), "memory", both, both))
		w.wantRouteBy("after the restart", "10.5.3.0/24", "flannel.1")
		if !w.own().Attrs.Equal(before.Attrs) {
			t.Errorf("the node's record changed from\n%s to\n%s",
				lease.EncodeAttrs(before.Attrs), lease.EncodeAttrs(w.own().Attrs))
		}
		want := []string{"going on with a change of the backend from " + vxlanID + " to " + hostgwID}
		if got := w.logged("backend-change"); !slices.Equal(got, want) {
			t.Errorf("log %q, want %q", got, want)
		}
	}
}

const (
	vxlan7Config = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7}}`
	vxlan7ID     = `{"Type":"vxlan","VNI":7}`
)

// crossing returns the record of a peer that has followed a change to vxlan with VNI 7.
func crossing(before lease.Lease) lease.Lease {
	after := before
	after.Attrs.Ways.Former = []lease.FormerWay{{Backend: json.RawMessage(vxlanID), Data: before.Attrs.BackendData}}
	after.Attrs.BackendData = []byte(`{"VNI":7,"VtepMAC":"c6:00:00:00:07:07"}`)
	return after
}

// changingToWireGuard returns the world of a node with one peer. Both have followed a change from
// vxlan to wireguard, and their devices have exchanged no keys.
func changingToWireGuard(t *testing.T) (w *world, peer dataplane.WGPeerKey) {
	w = newWorld(t, vxlanConfig)
	w.firewall.bothFlavours()
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	p := vxlanPeer("10.5.3.0-24", 4)
	w.put(p)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.configure(wireguardConfig)
	w.pass(time.Second)
	p.Attrs.Ways.Former = []lease.FormerWay{{Backend: json.RawMessage(vxlanID), Data: p.Attrs.BackendData}}
	p.Attrs.BackendType = "wireguard"
	p.Attrs.BackendData = []byte(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)
	w.put(p)
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	return w, dataplane.WGPeerKey{Link: "flannel-wg", Public: dataplane.PublicKey{9}}
}

// A node announces wireguard before it uses it. From then on it sends to a peer that offers wireguard by nothing else,
// also after a restart and without a session.
func TestNoClearTextAfterThePreparation(t *testing.T) {
	w, peer := changingToWireGuard(t)
	if _, has := w.host.WGPeers.Get(peer); !has {
		t.Fatalf("the device does not know the peer:\n%s", w.host.Dump())
	}
	w.wantRouteBy("while the node prepares", "10.5.3.0/24", "flannel.1")
	if a := w.own().Attrs; a.BackendType != "vxlan" || a.Ways.Next == nil {
		t.Errorf("the record says %s", lease.EncodeAttrs(a))
	}
	w.pass(transition.PrepareFor)
	w.tell()
	w.pass(time.Second)
	w.wantRouteBy("after", "10.5.3.0/24", "flannel-wg")
	if a := w.own().Attrs; a.BackendType != "wireguard" || a.Ways.Next != nil || len(a.Ways.Former) != 1 {
		t.Errorf("the record says %s", lease.EncodeAttrs(a))
	}
	w.start()
	w.tell()
	w.applyErr = func(op dataplane.Op) error {
		if r, ok := op.Object.(dataplane.Route); ok && r.Dst.String() == "10.5.3.0/24" && r.Link == "flannel.1" {
			t.Errorf("after a restart: %s", op)
		}
		return nil
	}
	w.pass(time.Minute)
	w.wantRouteBy("after a restart", "10.5.3.0/24", "flannel-wg")
}

// A kernel without wireguard refuses the device. The node stays with vxlan, is not ready, and its limit does not
// begin.
func TestNoModule(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.firewall.bothFlavours()
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	w.put(vxlanPeer("10.5.3.0-24", 4))
	w.tell()
	w.pass(time.Second)
	w.refuse(map[string]error{"flannel-wg": driver.ErrUnsupported})
	w.configure(wireguardConfig)
	w.pass(2 * time.Hour)
	w.tell()
	w.wantRouteBy("without the module", "10.5.3.0/24", "flannel.1")
	if w.n.Status().Ready || w.own().Attrs.BackendType != "vxlan" || !w.n.transition.Began().At.IsZero() {
		t.Errorf("record %s\n%s", lease.EncodeAttrs(w.own().Attrs), w.log())
	}
}

// A request whose answer is late may have published the present way, so the node keeps that
// way when the config changes back.
func TestKeepsAWayThatItMayHavePublished(t *testing.T) {
	for verb, before := range map[Verb]string{Create: "", Update: vxlanConfig} {
		w := newWorld(t, cmp.Or(before, vxlan7Config))
		w.put(crossing(vxlanPeer("10.5.3.0-24", 4)))
		if before != "" {
			w.tell()
			w.pass(time.Second)
		}
		w.held = true
		w.configure(vxlan7Config)
		w.pass(time.Second)
		if w.pending == nil || w.pending.Verb != verb {
			t.Fatalf("no request of verb %v is under way:\n%s", verb, w.log())
		}
		w.configure(vxlanConfig)
		w.pass(time.Second)
		if !w.n.transition.Set().Has(vxlan7ID) {
			t.Errorf("verb %v: the node has ended a way by which peers may send:\n%s", verb, w.log())
		}
	}
}

// A change back before the node has published the new way leaves nothing of it.
func TestForgetsAWayThatNoPeerKnows(t *testing.T) {
	w := readyWorld(t)
	w.refuse(map[string]error{"flannel.7": driver.ErrUnsupported})
	w.configure(vxlan7Config)
	w.pass(time.Second)
	w.configure(vxlanConfig)
	w.pass(time.Second)
	if got := w.n.transition.Set().Previous(); len(got) > 0 {
		t.Errorf("the node keeps %q, which no peer knows", got)
	}
}

// While a peer has not followed a change of vxlan's port, the previous device stays, under another name that the
// state file knows first. A kernel that refuses the renaming makes the node replace the device.
func TestPortChange(t *testing.T) {
	for name, refusal := range map[string]error{
		"renamed": nil, "refused": driver.ErrUnsupported, "taken": driver.ErrExists,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.put(vxlanPeer("10.5.99.0-24", 99))
			w.tell()
			w.pass(time.Minute)
			w.tell()
			w.wantReady()
			before, deleted := w.host.Links["flannel.1"], 0
			saved := false
			w.applyErr = func(op dataplane.Op) error {
				link, isLink := op.Object.(dataplane.Link)
				if isLink && link.Was != "" {
					saved = strings.Contains(w.files[StateFile], link.Name)
					return refusal
				}
				if _, there := w.host.Links[link.Name]; there && op.Verb == dataplane.Create {
					return driver.ErrExists
				}
				if isLink && op.Verb == dataplane.Delete {
					deleted++
				}
				return nil
			}
			w.configure(portConfig)
			w.pass(time.Minute)
			w.wantReady()
			if !saved {
				t.Error("the state file does not name fl.1.8472 before the host has it")
			}
			if was := (refusal != nil); (deleted > 0) != was {
				t.Errorf("%d devices deleted", deleted)
			}
			port := func(dev string) uint16 {
				v, _ := w.host.Links[dev].Params.(dataplane.VXLAN)
				return v.Port
			}
			if port("flannel.1") != 4789 || port("fl.1.8472") != 8472 || w.host.Links["fl.1.8472"].MAC != before.MAC {
				t.Errorf("devices %v", w.host.Links)
			}
			r, _ := w.host.Routes.Get(dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.99.0/24")})
			if r.Link != "fl.1.8472" {
				t.Errorf("%s does not lead to the peer that has not followed", r)
			}
		})
	}
}

// A node that takes over from upstream, whose record does not name the port, has no way beside that of the config.
func TestPortAfterUpstream(t *testing.T) {
	w := newWorld(t, portConfig)
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.put(vxlanPeer("10.5.7.0-24", 3)) // of this host
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if w.count("backend-change") > 0 || len(w.host.Links) != 1 {
		t.Errorf("devices %v\n%s", w.host.Links, w.log())
	}
}

// A peer's record that does not name the port counts for the default port while the change lasts, and for the port of
// the config afterwards.
func TestRecordWithoutAPort(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.tell()
	w.pass(time.Minute)
	w.configure(portConfig)
	w.pass(time.Minute)
	w.wantRouteBy("during the change", "10.5.99.0/24", "fl.1.8472")
	w.configure(strings.Replace(portConfig, `{`, `{"Formerly":[],`, 1))
	w.pass(time.Minute)
	w.tell()
	w.pass(2 * time.Minute)
	w.wantRouteBy("after its end", "10.5.99.0/24", "flannel.1")
}

// One of several networks frees the previous port at once: another one may wait for it, and has what this one wants.
func TestPortChangeBesideANetwork(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{} }
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.wantReady()
	w.configure(portConfig)
	w.pass(time.Minute)
	if len(w.host.Links) != 1 || vxlanOf(w.host.Links["flannel.1"]).Port != 4789 {
		t.Errorf("devices %v", w.host.Links)
	}
}
