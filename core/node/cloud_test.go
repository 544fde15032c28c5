package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

const cloudConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"aws-vpc"}}`

// fakeCloud is a provider with two tables.
type fakeCloud struct {
	routes     *dataplane.State
	unseen     bool                     // looks do not show the routes yet
	err        error                    // of looks
	refuse     func(dataplane.Op) error // of changes
	unprepared string
	none       bool // there is no table

	looks  int
	plans  []string
	extent dataplane.Extent
}

// perform does what the node asks of the lane, and reports whether it asked for anything.
func (f *fakeCloud) perform(e LaneEffects, in *LaneInput) bool {
	if e.Look != nil {
		f.looks++
		f.extent = e.Look.Extent
		have, facts := f.routes.Clone(), driver.CloudFacts{Tables: []string{"a", "b"}, Unprepared: f.unprepared}
		if f.unseen {
			have = dataplane.NewState()
		}
		if f.none {
			facts.Tables = nil
		}
		in.Looked = &Looked{Seen: driver.Observation{State: have, Facts: facts}, Err: f.err}
	}
	if e.Plan != nil {
		in.Applied = &Applied{}
		for _, op := range e.Plan {
			f.plans = append(f.plans, op.String())
			in.Applied.Errs = append(in.Applied.Errs, f.apply(op))
		}
	}
	return e.Look != nil || e.Plan != nil
}

func (f *fakeCloud) apply(op dataplane.Op) error {
	if f.refuse != nil {
		if err := f.refuse(op); err != nil {
			return err
		}
	}
	r := op.Object.(dataplane.CloudRoute)
	if op.Verb == dataplane.Delete {
		if !f.routes.CloudRoutes.Has(r.CloudRouteKey) {
			return driver.ErrNotFound
		}
		f.routes.CloudRoutes.Delete(r.CloudRouteKey)
		return nil
	}
	if f.routes.CloudRoutes.Has(r.CloudRouteKey) {
		return driver.ErrExists
	}
	r.Target = "me"
	f.routes.AddCloudRoute(r)
	return nil
}

// asked returns the ops since the last call.
func (f *fakeCloud) asked() string {
	text := strings.Join(f.plans, "\n")
	f.plans = nil
	return text
}

// set puts entries into the tables.
func (w *world) entries(lines ...string) {
	w.t.Helper()
	state, err := dataplane.ParseDump(strings.Join(lines, "\n"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range state.CloudRoutes.All {
		w.cloud.routes.AddCloudRoute(r)
	}
}

// cloudWorld returns a node with the subnet 10.5.3.0/24 and the entries of others in the
// provider's tables, before its first look.
func cloudWorld(t *testing.T, conf string) *world {
	t.Helper()
	w := newWorld(t, conf)
	w.put(lease.Lease{Key: mustKey("10.5.3.0-24"), Attrs: lease.Attrs{PublicIP: w.facts.Links[0].Addrs[0].Prefix.Addr()}})
	w.entries(others...)
	return w
}

// others are entries in which the node has no part.
var others = []string{
	`cloud-route 0.0.0.0/0 table "a" to "me" self`, `cloud-route 10.6.0.0/24 table "a" to "me" self`,
	`cloud-route 10.5.4.0/24 table "a" to "peer"`, `cloud-route 192.168.0.0/16 table "a" to "local" provided`,
}

// routed returns a node whose route is in both tables.
func routed(t *testing.T, conf string) *world {
	t.Helper()
	w := cloudWorld(t, conf)
	w.tell()
	w.wantReady()
	w.cloud.asked()
	return w
}

const (
	addOwnA = `add cloud-route 10.5.3.0/24 table "a" self`
	addOwnB = `add cloud-route 10.5.3.0/24 table "b" self`
)

// wantAsked compares the ops since the last call, one a line.
func (w *world) wantAsked(want ...string) {
	w.t.Helper()
	if d := cmp.Diff(strings.Join(want, "\n"), w.cloud.asked()); d != "" {
		w.t.Errorf("ops (-want +got):\n%s", d)
	}
}

// The route is made in each table before the node is ready, and the record is the
// contract's (interop 3.3).
func TestCloudRouteIsMade(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.tell()
	w.wantReady()
	w.wantAsked(addOwnA, addOwnB)
	if got := string(lease.EncodeAttrs(w.own().Attrs)); got != `{"PublicIP":"192.168.64.3","PublicIPv6":null}` {
		t.Errorf("record %s", got)
	}
	own := netip.MustParseAddr("192.168.64.3")
	if p := w.cloud.extent.Provider; p.Name != "aws-vpc" || p.Addr != own || p.Public != own {
		t.Errorf("asked %s about %s, which peers reach at %s", p.Name, p.Addr, p.Public)
	}
	if w.host.Len() != 0 || !strings.Contains(w.files[SubnetFile], "FLANNEL_MTU=1500") {
		t.Errorf("host:\n%s\nsubnet file:\n%s", w.host.Dump(), w.files[SubnetFile])
	}
}

// The node looks every 4 to 6 minutes, whatever peers come and go.
func TestCloudIsLookedAtSlowly(t *testing.T) {
	w := routed(t, cloudConfig)
	looks := w.cloud.looks
	for i := range byte(60) {
		w.put(lease.Lease{Key: mustKey(fmt.Sprintf("10.5.%d.0-24", 10+i)), Attrs: vxlanPeer("10.5.4.0-24", 10+i).Attrs})
		w.tell()
		w.pass(time.Minute)
	}
	if n := w.cloud.looks - looks; n < 10 || n > 15 {
		t.Errorf("%d looks in an hour", n)
	}
	w.wantAsked()
	if l := w.status().Lanes[CloudLane]; !l.Watched || !l.AsDesired || l.Name != "cloud" {
		t.Errorf("lane %+v", l)
	}
}

// A route that another program has removed or replaced is made again and reported.
func TestLostCloudRouteIsReported(t *testing.T) {
	w := routed(t, cloudConfig)
	own := dataplane.CloudRouteKey{Dst: w.own().Key.V4, Table: "a"}
	w.cloud.routes.CloudRoutes.Delete(own)
	w.pass(7 * time.Minute)
	w.wantAsked(addOwnA)
	w.cloud.routes.AddCloudRoute(dataplane.CloudRoute{CloudRouteKey: own, Target: "i-other"})
	w.pass(7 * time.Minute)
	w.wantAsked(`del cloud-route 10.5.3.0/24 table "a" to "i-other"`, addOwnA)
	w.wantReady()
	want := []string{
		"another program has removed the route of subnet 10.5.3.0/24 from table a: it is gone; making it again",
		"another program has removed the route of subnet 10.5.3.0/24 from table a: in its place is cloud-route 10.5.3.0/24 " +
			"table \"a\" to \"i-other\"; give each cluster of the cloud's network a Network of its own; making it again",
	}
	if d := cmp.Diff(want, w.logged("cloud-route-lost")); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	if r := w.status().Repairs; len(r) != 2 || r[0].Lane != "cloud" || r[0].Changes != 2 {
		t.Errorf("repairs %+v", r)
	}
}

// A restart knows the route, and removes those of the node's former subnets and nothing else.
func TestFormerCloudRoutesAreRemoved(t *testing.T) {
	w := routed(t, cloudConfig)
	w.start()
	w.entries(`cloud-route 10.5.9.0/24 table "b" to "me" self`, `cloud-route 10.5.8.0/24 table "b" to "ghost" broken`)
	w.tell()
	w.wantReady()
	w.wantAsked(`del cloud-route 10.5.8.0/24 table "b" to "ghost" broken`,
		`del cloud-route 10.5.9.0/24 table "b" to "me" self`)
	for _, line := range others {
		if !strings.Contains(w.cloud.routes.Dump(), line) {
			t.Errorf("%s is gone", line)
		}
	}
}

// Only with aws-vpc nodes remove routes that lead nowhere (interop 6.9).
func TestDeadCloudRoutesStay(t *testing.T) {
	w := routed(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"tencent-vpc"}}`)
	w.entries(`cloud-route 10.5.8.0/24 table "b" to "ghost" broken`)
	w.pass(7 * time.Minute)
	w.wantAsked()
}

// A route of a former subnet that cannot be deleted keeps no node from being ready.
func TestUndeletableLeftOver(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.entries(`cloud-route 10.5.9.0/24 table "b" to "me" self`)
	w.cloud.refuse = func(op dataplane.Op) error {
		if op.Verb == dataplane.Delete {
			return driver.ErrDenied
		}
		return nil
	}
	w.tell()
	w.pass(20 * time.Second)
	w.wantReady()
	if failures := w.status().Lanes[CloudLane].Failures; len(failures) != 1 ||
		failures[0] != `del cloud-route 10.5.9.0/24 table "b" to "me" self: permission denied` {
		t.Errorf("failures %q", failures)
	}
	w.cloud.asked()
	w.pass(30 * time.Minute)
	if n := strings.Count(w.cloud.asked(), "del "); n < 5 || n > 20 {
		t.Errorf("%d attempts in half an hour", n)
	}
	w.wantReady()
}

// What the provider refuses is a reason not to be ready, in its own words. Its answers are asked for
// less often if it asks for that.
func TestCloudRefusals(t *testing.T) {
	for _, c := range []struct {
		err         error
		least, most int // attempts in half an hour
	}{
		{errors.New("quota of 50 routes is used up; ask for more"), 5, 30},
		{fmt.Errorf("RequestLimitExceeded: %w", driver.ErrBusy), 3, 10},
	} {
		w := cloudWorld(t, cloudConfig)
		attempts := 0
		w.cloud.refuse = func(dataplane.Op) error { attempts++; return c.err }
		w.tell()
		w.pass(30 * time.Minute)
		if n := attempts / 2; n < c.least || n > c.most {
			t.Errorf("%v: %d attempts in half an hour", c.err, n)
		}
		want := []string{`cloud: ` + addOwnA + `: ` + c.err.Error(), `cloud: ` + addOwnB + `: ` + c.err.Error()}
		if s := w.status(); s.Ready || !slices.Equal(s.Reasons, want) {
			t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
		}
		w.cloud.refuse = nil
		w.pass(7 * time.Minute)
		w.wantReady()
	}
}

func TestUnreadableCloud(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.cloud.err = errors.New("this host is no instance of the provider")
	w.tell()
	w.wantReason("cloud: cannot read the route tables: this host is no instance of the provider")
	w.pass(10 * time.Minute)
	if w.cloud.looks > 10 {
		t.Errorf("%d looks in ten minutes", w.cloud.looks)
	}
	w.pass(time.Hour)
	w.cloud.err = nil
	for looks := w.cloud.looks; w.cloud.looks == looks; {
		w.pass(time.Second)
	}
	w.wantReady() // without a further pause
	w.cloud.none = true
	w.pass(7 * time.Minute)
	w.wantReason("cloud: the provider shows no route table for this host")
	w.cloud.none, w.cloud.unprepared = false, "the check of sources stays on: denied"
	w.pass(7 * time.Minute)
	w.wantReady()
	if notes := w.status().Notes; len(notes) != 1 || notes[0] != "cloud: the check of sources stays on: denied" {
		t.Errorf("notes %q", notes)
	}
	if n := w.count("cloud-unprepared"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// The provider shows a new route late.
func TestCloudShowsRoutesLate(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.cloud.unseen = true
	w.tell()
	w.wantReason("cloud: the route of the subnet is not yet in the tables")
	if w.cloud.looks > 10 {
		t.Errorf("%d looks at once", w.cloud.looks)
	}
	w.cloud.unseen = false
	w.pass(time.Minute)
	w.wantReady()
}

// A route that is not yet in force, and one in whose place is the provider's own.
func TestCloudRoutesNotInForce(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.entries(`cloud-route 10.5.3.0/24 table "a" to "me" self pending`,
		`cloud-route 10.5.3.0/24 table "b" to "vpc" provided`)
	w.tell()
	want := []string{
		`cloud: route 10.5.3.0/24: the provider's own entry has its place (cloud-route 10.5.3.0/24 table "b" to "vpc" ` +
			`provided); give the overlay a network apart from those of the cloud`,
		`cloud: cloud-route 10.5.3.0/24 table "a" to "me" self pending is not yet in force`,
	}
	if s := w.status(); s.Ready || !slices.Equal(s.Reasons, want) {
		t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
	}
	w.entries(`cloud-route 10.5.3.0/24 table "a" to "me" self`)
	w.pass(time.Minute)
	w.wantReason(want[0])
	w.cloud.routes.CloudRoutes.Delete(dataplane.CloudRouteKey{Dst: mustKey("10.5.3.0-24").V4, Table: "b"})
	w.pass(7 * time.Minute)
	w.wantReady()
	w.wantAsked(addOwnB)
	if lost := w.logged("cloud-route-lost"); len(lost) > 0 {
		t.Errorf("reported as lost: %q", lost)
	}
}

// A node that has lost its subnet leaves the route to the other node, takes another subnet, and makes
// the route of that one.
func TestFencedNodeLeavesTheCloud(t *testing.T) {
	w := routed(t, cloudConfig)
	w.entries(`cloud-route 10.5.3.0/24 table "a" to "i-other"`)
	w.held = true // no lease for now
	lost := w.own()
	w.remove(lost.Key)
	w.put(lease.Lease{Key: lost.Key, Attrs: vxlanPeer("10.5.3.0-24", 77).Attrs})
	w.tell()
	w.pass(20 * time.Minute)
	w.wantAsked()
	if s := w.status(); !s.Fenced {
		t.Fatalf("not fenced: %+v", s.Reasons)
	}
	w.held = false
	w.run(Input{Requested: w.serve(), View: w.view()})
	w.pass(time.Minute)
	w.wantReady()
	own := w.own().Key.V4.String()
	w.wantAsked(`add cloud-route `+own+` table "a" self`, `add cloud-route `+own+` table "b" self`,
		`del cloud-route 10.5.3.0/24 table "b" to "me" self`)
}

// Without the datastore a node makes its route again if it is gone, and takes no other one's place.
func TestCloudWithoutStore(t *testing.T) {
	w := routed(t, cloudConfig)
	w.down = true
	w.tell()
	w.cloud.routes.CloudRoutes.Delete(dataplane.CloudRouteKey{Dst: w.own().Key.V4, Table: "a"})
	w.entries(`cloud-route 10.5.3.0/24 table "b" to "i-other"`, `cloud-route 10.5.9.0/24 table "b" to "me" self`)
	w.pass(20 * time.Minute)
	w.wantAsked(addOwnA)
	w.down = false
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	w.wantAsked(`del cloud-route 10.5.3.0/24 table "b" to "i-other"`, addOwnB,
		`del cloud-route 10.5.9.0/24 table "b" to "me" self`)
}

// After a change to another backend the route stays for peers that have not followed it, until the
// next look. The lane then rests.
func TestBackendLeavesTheCloud(t *testing.T) {
	w := routed(t, cloudConfig)
	w.configure(vxlanConfig)
	w.pass(10 * time.Second)
	w.wantReady()
	w.wantAsked()
	w.pass(7 * time.Minute)
	w.wantAsked(`del cloud-route 10.5.3.0/24 table "a" to "me" self`, `del cloud-route 10.5.3.0/24 table "b" to "me" self`)
	looks := w.cloud.looks
	w.pass(30 * time.Minute)
	if w.cloud.looks != looks || w.status().Lanes[CloudLane].Watched {
		t.Errorf("%d further looks", w.cloud.looks-looks)
	}
	w.configure(cloudConfig)
	w.pass(10 * time.Second)
	w.wantReady()
	w.wantAsked(addOwnA, addOwnB)
}

// With another Network the routes of the former one go, even if the provider refuses that for long.
func TestNetworkChangesInTheCloud(t *testing.T) {
	w := routed(t, cloudConfig)
	w.cloud.refuse = func(dataplane.Op) error { return driver.ErrBusy }
	w.configure(`{"Network":"10.7.0.0/16","Backend":{"Type":"aws-vpc"}}`)
	w.pass(3 * time.Minute)
	w.cloud.refuse = nil
	w.cloud.asked()
	w.pass(7 * time.Minute)
	w.wantReady()
	own := w.status().Subnet.V4.String()
	w.wantAsked(`add cloud-route `+own+` table "a" self`, `add cloud-route `+own+` table "b" self`,
		`del cloud-route 10.5.3.0/24 table "a" to "me" self`, `del cloud-route 10.5.3.0/24 table "b" to "me" self`)
	w.pass(time.Minute)
	w.entries(`cloud-route 10.5.9.0/24 table "b" to "me" self`) // of another program
	w.pass(7 * time.Minute)
	w.wantAsked()
}

// A network that is removed leaves no route.
func TestRemovalFromTheCloud(t *testing.T) {
	w := cloudWorld(t, cloudConfig)
	w.snap.History = 1
	w.decorate = func(v *lease.View) { v.Beside = &lease.Beside{} }
	w.tell()
	w.wantReady()
	w.cloud.asked()
	failing := errors.New("later")
	w.cloud.refuse = func(dataplane.Op) error { return failing }
	w.unconfigured()
	w.tell()
	if w.exit != nil {
		t.Fatalf("exit %+v", w.exit)
	}
	w.cloud.refuse = nil
	w.start()
	w.tell()
	w.pass(time.Minute)
	w.wantGone()
	if left := w.cloud.routes.Dump(); strings.Contains(left, "10.5.3.0") || !strings.Contains(left, "10.5.4.0") {
		t.Errorf("left:\n%s", left)
	}
}

// Nothing that the node shows holds the access key. The state file holds the config, as it does with other secrets.
func TestAccessKeyStaysHidden(t *testing.T) {
	w := routed(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"ali-vpc",`+
		`"AccessKeyID":"id-7f3a","AccessKeySecret":"secret-7f3a"}}`)
	if w.cloud.extent.Provider.KeySecret.Reveal() != "secret-7f3a" {
		t.Error("the driver cannot learn the key")
	}
	w.cloud.refuse = func(dataplane.Op) error { return driver.ErrDenied }
	w.cloud.routes.CloudRoutes.DeleteFunc(func(dataplane.CloudRouteKey, dataplane.CloudRoute) bool { return true })
	w.pass(7 * time.Minute)
	status, err := json.Marshal(w.status())
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%s%s%+v%+v%+v%s%s", w.log(), status, w.n.Peers(), w.n.Differences(), w.n.Ready(),
		w.n.host.want.state.Dump(), w.files[SubnetFile])
	if strings.Contains(shown, "7f3a") || !strings.Contains(shown, "cloud-route") {
		t.Errorf("shown: %s", shown)
	}
}

// The status says that only the router knows the way to a peer.
func TestCloudPeers(t *testing.T) {
	w := routed(t, cloudConfig)
	w.put(lease.Lease{Key: mustKey("10.5.4.0-24"),
		Attrs: lease.Attrs{PublicIP: vxlanPeer("10.5.4.0-24", 4).Attrs.PublicIP}})
	w.tell()
	w.pass(time.Second)
	peers := w.n.Peers()
	if len(peers) != 1 || peers[0].State != PeerServed || len(peers[0].Ways) != 1 ||
		peers[0].Ways[0].Type != "router" || peers[0].Ways[0].Link != "eth0" {
		t.Errorf("peers %+v", peers)
	}
}
