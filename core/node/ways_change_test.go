package node

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
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
func followed(before lease.Lease, unused bool) lease.Lease {
	after := before
	after.Attrs.BackendType, after.Attrs.BackendData = "host-gw", nil
	after.Attrs.Ways = lease.Ways{Former: []lease.FormerWay{
		{Backend: json.RawMessage(vxlanID), Data: before.Attrs.BackendData, Unused: unused}}}
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

// changeOf returns the text of a change to host-gw in the status.
func changeOf(sends, keeps string) string {
	return fmt.Sprintf(`{"To":%q,"Former":[{"From":%q,"Sends":%s,"Keeps":%s}]}`, hostgwID, vxlanID, sends, keeps)
}

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

// wantUnused checks what the node's record says about its former way.
func (w *world) wantUnused(when string, offered, unused bool) {
	w.t.Helper()
	former := w.own().Attrs.Ways.Former
	if len(former) > 0 != offered || offered && former[0].Unused != unused {
		w.t.Errorf("%s: the node's record says %s", when, lease.EncodeAttrs(w.own().Attrs))
	}
}

// The steps of a change, in the status, the log, the node's record and on the host.
func TestStepsOfAChange(t *testing.T) {
	w := readyWorld(t)
	w.tell()
	w.wantChange("before", "null")
	w.configure(hostgwConfig)
	w.pass(time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	both := `["10.5.3.0-24","10.5.4.0-24"]`
	w.wantChange("no peer has followed", changeOf(both, both))
	w.wantRouteBy("no peer has followed", "10.5.3.0/24", "flannel.1")
	w.wantUnused("no peer has followed", true, false)

	first, second := vxlanPeer("10.5.3.0-24", 4), vxlanPeer("10.5.4.0-24", 5)
	w.put(followed(first, false))
	w.tell()
	w.pass(time.Second)
	w.wantChange("one has followed", changeOf(`["10.5.4.0-24"]`, both))
	w.wantRouteBy("one has followed", "10.5.3.0/24", "eth0")
	w.wantUnused("one has followed", true, false)

	w.put(followed(second, false))
	w.tell()
	w.pass(time.Second)
	w.tell()
	w.wantChange("both have followed", changeOf("null", both))
	w.wantUnused("both have followed", true, true)

	w.put(followed(first, true))
	w.tell()
	w.pass(time.Second)
	w.wantChange("one does not send by vxlan", changeOf("null", `["10.5.4.0-24"]`))
	if _, has := w.host.Links["flannel.1"]; !has {
		t.Error("the device has gone before the change is over")
	}
	w.put(followed(second, true))
	w.tell()
	w.pass(time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.wantChange("after", "null")
	w.wantUnused("after", false, false)
	if _, has := w.host.Links["flannel.1"]; has {
		t.Error("the host still has the former device")
	}
	log := []string{"keeping " + vxlanID + " beside " + hostgwID + " until no peer needs it",
		"the change from " + vxlanID + " to " + hostgwID + " is over"}
	if got := append(w.logged("backend-change"), w.logged("backend-changed")...); !slices.Equal(got, log) {
		t.Errorf("log %q, want %q", got, log)
	}
}

// A node without peers needs no former way, and a start without a change has none to tell about.
func TestChangeWithoutPeers(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.tell()
	w.configure(hostgwConfig)
	w.pass(time.Second)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	w.wantChange("after", "null")
	if _, has := w.host.Links["flannel.1"]; has {
		t.Error("the host still has the former device")
	}
	w.events = nil
	w.start()
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.count("backend-change") != 0 {
		t.Errorf("a start after the change tells about it:\n%s", w.log())
	}
}

// A daemon that starts in the middle of a change goes on with it: its state file knows the former
// way, and so does its own record if that file is lost.
func TestRestartDuringAChange(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		w := readyWorld(t)
		w.configure(hostgwConfig)
		w.pass(time.Second)
		w.tell()
		w.pass(2 * time.Minute) // the state file is written
		before := w.own()
		w.events = nil
		if forgets {
			w.files = map[File]string{}
		}
		w.start()
		w.tell()
		w.pass(time.Second)
		w.wantReady()
		both := `["10.5.3.0-24","10.5.4.0-24"]`
		w.wantChange("after the restart", changeOf(both, both))
		w.wantRouteBy("after the restart", "10.5.3.0/24", "flannel.1")
		if !w.own().Attrs.Equal(before.Attrs) {
			t.Errorf("the node's record changed from\n%s to\n%s",
				lease.EncodeAttrs(before.Attrs), lease.EncodeAttrs(w.own().Attrs))
		}
		want := []string{"going on with a change of the backend from " + vxlanID + " to " + hostgwID}
		if forgets {
			want = []string{"keeping " + vxlanID + " beside " + hostgwID + " until no peer needs it"}
		}
		if got := w.logged("backend-change"); !slices.Equal(got, want) {
			t.Errorf("the state file is lost: %t; log %q, want %q", forgets, got, want)
		}
	}
}

// The daemon was off while the config changed, and has lost its state file. Its record tells which backend its
// peers know it by. A record without a type may be of any of several backends, and opens none.
func TestChangeWhileOffWithoutMemory(t *testing.T) {
	for _, typed := range []bool{true, false} {
		w := readyWorld(t)
		w.files = map[File]string{}
		own := w.own()
		if !typed {
			own.Attrs = lease.Attrs{PublicIP: own.Attrs.PublicIP}
		}
		w.put(own)
		w.start()
		w.configure(hostgwConfig)
		w.pass(time.Second)
		w.tell()
		w.pass(time.Second)
		if has := w.n.network.backend.Has(vxlanID); has != typed {
			t.Errorf("the record names its backend: %t, the node keeps vxlan: %t", typed, has)
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

// A new node opens a former way to reach a peer that has only that, if another peer names the
// way. It leaves another program's device of that name alone.
func TestNewNodeJoinsAChange(t *testing.T) {
	const vxlan9ID = `{"Type":"vxlan","VNI":9}`
	for _, foreign := range []bool{false, true} {
		w := newWorld(t, vxlan7Config)
		if foreign {
			w.addDevice("flannel.9", "10.9.0.0/32", dataplane.VXLAN{VNI: 9})
		}
		behind := vxlanPeer("10.5.3.0-24", 4)
		behind.Attrs.Ways.Present = json.RawMessage(vxlan9ID)
		w.put(behind)
		w.tell()
		w.pass(time.Second)
		if w.n.network.backend.Has(vxlan9ID) {
			t.Error("one record alone opens a way")
		}
		ahead := crossing(vxlanPeer("10.5.4.0-24", 5))
		ahead.Attrs.Ways.Former[0].Backend = json.RawMessage(vxlan9ID)
		w.put(ahead)
		w.tell()
		w.pass(time.Second)
		w.tell()
		w.pass(time.Second)
		if joined := w.n.network.backend.Has(vxlan9ID); joined == foreign {
			t.Errorf("another program has flannel.9: %t; the node has joined: %t\n%s", foreign, joined, w.log())
		}
		if !foreign {
			w.wantReady()
			w.wantRouteBy("after joining", "10.5.3.0/24", "flannel.9")
		}
	}
}

// changingToWireGuard returns the world of a node with one peer. Both have followed a change from
// vxlan to wireguard, and their devices have exchanged no keys.
func changingToWireGuard(t *testing.T) (w *world, peer dataplane.WGPeerKey) {
	w = newWorld(t, vxlanConfig)
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

// The node sends to a peer through wireguard once their devices have exchanged keys, and looks for
// that every few seconds.
func TestWaitsForKeys(t *testing.T) {
	w, peer := changingToWireGuard(t)
	if _, has := w.host.WGPeers.Get(peer); !has {
		t.Fatalf("the device does not know the peer:\n%s", w.host.Dump())
	}
	w.wantRouteBy("before", "10.5.3.0/24", "flannel.1")
	w.wantUnused("before", true, false)
	w.host.Alive[peer] = struct{}{}
	w.pass(meetEvery + time.Second)
	w.wantRouteBy("after", "10.5.3.0/24", "flannel-wg")
	w.tell()
	w.pass(time.Second)
	w.wantUnused("after", true, true)

	delete(w.host.Alive, peer) // sessions end while no packet flows
	w.pass(time.Minute)
	w.wantRouteBy("after the session", "10.5.3.0/24", "flannel-wg")
	if !maps.Equal(w.n.network.met, map[dataplane.WGPeerKey]bool{peer: true}) {
		t.Errorf("met %v", w.n.network.met)
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
		if !w.n.network.backend.Has(vxlan7ID) {
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
	if got := w.n.network.backend.Former(); len(got) > 0 {
		t.Errorf("the node keeps %q, which no peer knows", got)
	}
}

// While a peer has not followed a change of vxlan's port, the former device stays, under another name that the
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

// Without a history, as with a server of upstream's, the revisions of config and records do not compare: a peer's
// record without ways is of the former port, however late it was written. With one, a record with the same content
// is one that was renewed.
func TestRecordsWithoutAPort(t *testing.T) {
	for _, c := range []struct {
		name    string
		history uint64
		mac     byte // of the peer's device at the end
		want    string
	}{
		{"no history", 0, 98, "fl.1.8472"}, {"renewed", 1, 99, "fl.1.8472"}, {"a new device", 1, 98, "flannel.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.snap.History = c.history
			peer := w.put(vxlanPeer("10.5.99.0-24", 99))
			w.tell()
			w.pass(time.Minute)
			w.configure(portConfig)
			w.pass(time.Minute)
			peer.Attrs.BackendData = vxlanPeer("10.5.99.0-24", c.mac).Attrs.BackendData
			w.put(peer)
			w.tell()
			w.pass(time.Minute)
			w.wantRouteBy("after the peer's write", "10.5.99.0/24", c.want)
		})
	}
}

// A node that cannot make the device of the new port stays with the former one. Its record says so once it is written
// anew: peers could take one without ways for a record of upstream with the new port.
func TestRecordOfTheFormerPort(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.snap.History = 1
	w.put(vxlanPeer("10.5.99.0-24", 99))
	w.tell()
	w.pass(time.Minute)
	w.applyErr = func(op dataplane.Op) error {
		if l, is := op.Object.(dataplane.Link); is && op.Verb == dataplane.Create && vxlanOf(l).Port == 4789 {
			return driver.ErrBusy
		}
		return nil
	}
	w.configure(portConfig)
	w.pass(time.Minute)
	own := w.own()
	if !own.Attrs.Ways.IsEmpty() {
		t.Errorf("the record was written without need: %s", lease.EncodeAttrs(own.Attrs))
	}
	key, changed := own.Key, own
	changed.Attrs.BackendData = vxlanPeer("10.5.99.0-24", 98).Attrs.BackendData
	w.put(changed) // by another program
	for range 2 {  // and after a restart
		w.tell()
		w.pass(time.Minute)
		if now, _ := findLease(&w.snap, key); string(now.Attrs.Ways.Present) != vxlanID {
			t.Errorf("record %s", lease.EncodeAttrs(now.Attrs))
		}
		w.start()
	}
}

// One of several networks frees the former port at once: another one may wait for it, and has what this one wants.
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
