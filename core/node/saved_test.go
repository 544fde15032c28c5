package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// The node ignores a text that is no state file, and the log says so.
func TestStateUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		`{`:             "state file of the last run is ignored: unexpected end of JSON input",
		`{"Version":9}`: "state file of the last run is ignored: version 9, want 1",
		`{"Version":1,"Snapshot":{"Leases":[null]}}`: "state file of the last run is ignored: a lease is null",
	} {
		n := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), Saved: []byte(text)})
		if e := n.Ready().Events; len(e) != 1 || e[0].Kind != "state-unreadable" || e[0].Text != want {
			t.Errorf("%s: %v, want %s", text, e, want)
		}
		if n.store.saved != nil {
			t.Errorf("%s: taken all the same", text)
		}
		if m, err := SavedMarks([]byte(text)); err == nil {
			t.Errorf("%s: marks %+v", text, m)
		}
	}
}

// encode writes what encoding/json wrote in earlier releases: the same members with the
// same values, so each release reads the other's file.
func TestStateFileForm(t *testing.T) {
	w := readyWorld(t)
	s := w.n.state()
	lost := vxlanPeer("10.5.99.0-24", 99)
	s.Lost = []*lease.Lease{&lost}
	got, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var gotValue, want map[string]any
	if err := errors.Join(json.Unmarshal(got, &gotValue), json.Unmarshal(before, &want)); err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if d := cmp.Diff(want, gotValue); d != "" || len(s.Snapshot.Leases) == 0 {
		t.Errorf("state file (-encoding/json +encode):\n%s", d)
	}
}

// A state file that the node reads is written again with the same meaning.
func FuzzStateFile(f *testing.F) {
	f.Add([]byte(`{"Version":1,"Snapshot":{"Revision":1,"Config":{"Data":"e30=","Revision":1},"Leases":[` +
		`{"Key":"10.5.1.0-24","Attrs":{"PublicIP":"1.2.3.4","BackendData":{"a":" <b>"}},"ID":5}]},` +
		`"Lost":[{"Key":"","Attrs":{"PublicIP":"0.0.0.0"}}],"Links":["flannel.1"],"Networks":["10.5.0.0/16"]}`))
	f.Add([]byte(`{"Version":1,"Snapshot":{"Leases":[],"Quarantined":[{"Raw":"x","Reason":"y"}]},"Ways":[{}]}`))
	f.Add([]byte(`{"Version":1,"Unproven":true,"Ways":[{"Type":"vxlan","Options":{ "VNI" : 3}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := decodeSaved(text)
		if err != nil {
			return
		}
		written, err := s.encode()
		if err != nil {
			t.Skip("only a time beyond the year 9999, or a config that is no JSON, has no text")
		}
		again, err := decodeSaved(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		ways := cmpopts.IgnoreFields(saved{}, "Ways") // texts, which lose their blanks
		byValue := cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}, lease.Key{})
		if d := cmp.Diff(s, again, byValue, ways, cmpopts.EquateApproxTime(0), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("read back (-want +got):\n%s", d)
		}
	})
}

// The marks in a state file are those of the run that saved it.
func TestSavedMarks(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	data, err := w.n.state().encode()
	if err != nil {
		t.Fatal(err)
	}
	m, err := SavedMarks(data)
	if err != nil || m.Own != w.n.lease.self.Key || !slices.Contains(m.Links, "flannel.1") || len(m.Networks) != 1 {
		t.Errorf("%v, %+v", err, m)
	}
}

// A config of no use is not saved: a restart without a datastore goes on with the
// one in force.
func TestConfigInForceIsSaved(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.77.0-24", 77))
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	w.configure(`{"Network":"10.5.0.0/16","Backend":{"Type":"quantum"}}`)
	w.put(vxlanPeer("10.5.78.0-24", 78))
	w.tell()
	w.pass(10 * time.Second)
	w.start()
	w.run(Input{})
	w.pass(10 * time.Second)
	if w.exit != nil || !w.status().Stale || w.host.Routes.Len() != 2 {
		t.Errorf("exit %v, status %+v, host:\n%s", w.exit, w.status(), w.host.Dump())
	}
}

// Routes of the network that a former run had are removed, although the config
// changed while no daemon ran: the state file tells that they are ours.
func TestFormerNetworkIsCleanedUpAfterARestart(t *testing.T) {
	const conf = `{"Network":"10.%d.0.0/16","Backend":{"Type":"host-gw"}}`
	w := newWorld(t, fmt.Sprintf(conf, 5))
	w.tell()
	peer := vxlanPeer("10.5.77.0-24", 77)
	peer.Attrs.BackendType, peer.Attrs.BackendData = "host-gw", nil
	w.put(peer)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if w.host.Routes.Len() != 1 {
		t.Fatalf("routes before:\n%s", w.host.Dump())
	}
	w.rev++
	w.snap.Revision, w.snap.Config = w.rev, lease.Document{Data: fmt.Appendf(nil, conf, 6), Revision: w.rev}
	w.start()
	w.tell()
	w.pass(2 * time.Minute)
	w.wantReady()
	if w.host.Routes.Len() != 0 {
		t.Errorf("routes of the former network are left:\n%s", w.host.Dump())
	}
}

// A restarted node waits for the datastore before it programs the saved state, and
// says so once.
func TestWaitsBeforeItIsStale(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	w.host = dataplane.NewState()
	w.down = true
	w.start()
	w.run(Input{View: w.view()})
	w.pass(patience - 100*time.Millisecond)
	if s := w.status(); s.Stale || w.host.Routes.Len() != 0 || w.count("store-stale") != 0 {
		t.Errorf("stale %t, %d routes, want the node to wait", s.Stale, w.host.Routes.Len())
	}
	w.pass(time.Second)
	if s := w.status(); !s.Stale || w.host.Routes.Len() != 2 || w.count("store-stale") != 1 {
		t.Errorf("stale %t, %d routes, want the saved state\n%s", s.Stale, w.host.Routes.Len(), w.log())
	}
}

// A restart behind another address says which one the last run published. A restart
// behind the same one does not.
func TestRestartNamesTheFormerAddress(t *testing.T) {
	w := readyWorld(t)
	w.pass(time.Minute)
	const told = "moved from eth0 (MTU 1500, 192.168.64.3, public 192.168.64.3) to eth0 (MTU 1500, 192.168.64.33, "
	for address, want := range map[string]bool{"192.168.64.3/24": false, "192.168.64.33/24": true} {
		w.facts.Links[0].Addrs = []driver.LinkAddr{{Prefix: netip.MustParsePrefix(address), Permanent: true}}
		w.events = nil
		w.start()
		w.n.files.busy = true // keeps the first run's state file
		w.tell()
		logged := append(w.logged("uplink"), w.logged("uplink-moved")...)
		if len(logged) != 1 || strings.Contains(logged[0], told) != want {
			t.Errorf("%s: logged %q, want the former address named: %t", address, logged, want)
		}
	}
}

// A device that a former run made is removed, although the config changed while no
// daemon ran: the state file tells that the device is ours.
func TestFormerDeviceIsRemovedAfterARestart(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Config = lease.Document{Revision: w.rev,
		Data: []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":2},"Formerly":[]}`)}
	w.start()
	w.tell()
	w.pass(time.Minute)
	w.tell()
	w.pass(2 * time.Minute)
	w.wantReady()
	if _, left := w.host.Links["flannel.1"]; left || w.host.Links["flannel.2"].Name == "" {
		t.Errorf("want flannel.2 in place of flannel.1:\n%s", w.host.Dump())
	}
}
