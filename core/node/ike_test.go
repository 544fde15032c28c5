package node

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// fakeIKE is an IKE daemon whose peers agree at once, unless they are away.
type fakeIKE struct {
	state  *dataplane.State
	err    error                    // of looks
	refuse func(dataplane.Op) error // of changes
	away   bool                     // no peer answers

	looks int
	plans [][]dataplane.Op
}

// perform does what the node asks of the lane, and reports whether it asked for anything.
func (f *fakeIKE) perform(e LaneEffects, in *LaneInput) bool {
	if e.Look != nil {
		f.looks++
		have, err := dataplane.ParseDump(f.state.Dump())
		in.Looked = &Looked{Seen: driver.Observation{State: have}, Err: errors.Join(err, f.err)}
	}
	if e.Plan != nil {
		f.plans = append(f.plans, e.Plan)
		in.Applied = &Applied{}
		for _, op := range e.Plan {
			in.Applied.Errs = append(in.Applied.Errs, f.apply(op))
		}
	}
	return e.Look != nil || e.Plan != nil
}

func (f *fakeIKE) apply(op dataplane.Op) error {
	if f.refuse != nil {
		if err := f.refuse(op); err != nil {
			return err
		}
	}
	_, daemon := op.Object.(dataplane.IKEDaemon)
	if !daemon && len(f.state.IKE) == 0 {
		return driver.ErrNotFound
	}
	if op.Verb == dataplane.Delete {
		f.remove(op.Object)
		return nil
	}
	if t, ok := op.Object.(dataplane.Tunnel); ok {
		f.establish(t.ConnKey)
		return nil
	}
	f.state.Put(op.Object)
	if c, ok := op.Object.(dataplane.Conn); ok {
		f.establish(c.ConnKey)
	}
	return nil
}

func (f *fakeIKE) establish(k dataplane.ConnKey) {
	if !f.away {
		f.state.Put(dataplane.Tunnel{ConnKey: k})
	}
}

func (f *fakeIKE) remove(o dataplane.Object) {
	switch o := o.(type) {
	case dataplane.IKEDaemon:
		f.die()
	case dataplane.SharedKey:
		f.state.SharedKeys.Delete(o.SharedKeyKey)
	case dataplane.Conn:
		f.state.Conns.Delete(o.ConnKey)
		f.state.Tunnels.Delete(o.ConnKey)
	case dataplane.Tunnel:
		f.state.Tunnels.Delete(o.ConnKey)
	}
}

// die ends the daemon: its keys and connections are gone with it.
func (f *fakeIKE) die() { f.state = dataplane.NewState() }

// asked returns the plans since the last call.
func (f *fakeIKE) asked() (plans [][]dataplane.Op) { plans, f.plans = f.plans, nil; return plans }

// The objects of a node with the peers 4 and 5.
const (
	ikeBase = "ike charon\nshared-key 192.168.64.3 psk-1\n"
	ikeKey4 = "shared-key 192.168.64.4 psk-1\n"
	ikeKey5 = "shared-key 192.168.64.5 psk-1\n"
	conn4   = "192.168.64.3-10.5.3.0/24-10.5.4.0/24-192.168.64.4"
	conn5   = "192.168.64.3-10.5.3.0/24-10.5.5.0/24-192.168.64.5"
	esp     = " esp aes128gcm16\n"
	twoEnds = ikeBase + ikeKey4 + ikeKey5 + "conn " + conn4 + esp + "conn " + conn5 + esp
	oneEnd  = ikeBase + ikeKey4 + "conn " + conn4 + esp
)

// desireIKE puts the objects of a dump beside those that the backend renders, in place
// of such objects of an earlier call. They last until the node renders again.
func (w *world) desireIKE(dump string) {
	w.t.Helper()
	objects, err := dataplane.ParseDump(dump)
	if err != nil {
		w.t.Fatal(err)
	}
	want := w.n.host.want.state.Clone()
	want.IKE = objects.IKE
	want.SharedKeys = objects.SharedKeys
	want.Conns = objects.Conns
	w.n.host.want.state = want
	w.run(Input{})
}

// tunnelled returns a node whose IKE daemon has tunnels to two peers.
func tunnelled(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, vxlanConfig)
	w.put(vxlanPeer("10.5.4.0-24", 4))
	w.put(vxlanPeer("10.5.5.0-24", 5))
	w.tell()
	w.wantReady()
	w.desireIKE(twoEnds)
	w.wantIKE(twoEnds, conn4, conn5)
	w.wantReady()
	w.ike.asked()
	return w
}

// wantIKE compares what the daemon runs with with a dump and the names of tunnels.
func (w *world) wantIKE(dump string, tunnels ...string) {
	w.t.Helper()
	for _, name := range tunnels {
		dump += "tunnel " + name + "\n"
	}
	want, err := dataplane.ParseDump(dump)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := w.ike.state.Dump(); got != want.Dump() {
		w.t.Errorf("the IKE daemon runs with:\n%s\nwant:\n%s", got, want.Dump())
	}
}

// wantReason expects that the node is not ready, for one reason of this lane.
func (w *world) wantReason(want string) {
	w.t.Helper()
	if s := w.status(); s.Ready || !slices.Equal(s.Reasons, []string{want}) {
		w.t.Errorf("ready %t, reasons %q; want %q", s.Ready, s.Reasons, want)
	}
}

// Without a hint, the node looks at the IKE daemon every 8 to 12 s. It changes nothing
// while nothing is wrong.
func TestIKEDaemonIsWatched(t *testing.T) {
	w := tunnelled(t)
	looks := w.ike.looks
	w.pass(time.Minute)
	if n := w.ike.looks - looks; n < 4 || n > 8 {
		t.Errorf("%d looks in a minute", n)
	}
	if plans := w.ike.asked(); len(plans) > 0 {
		t.Errorf("with nothing wrong: %v", plans)
	}
	if l := w.status().Lanes[IKELane]; !l.Watched || !l.AsDesired || l.Name != "ike" {
		t.Errorf("lane %+v", l)
	}
}

// A node without IPsec never looks at an IKE daemon.
func TestNoIKEDaemonIsDesired(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Hour)
	w.wantReady()
	if w.ike.looks > 0 || len(w.ike.plans) > 0 {
		t.Errorf("%d looks, plans %v", w.ike.looks, w.ike.plans)
	}
}

// A daemon that died is started and loaded again. While it does not start, the node is
// not ready, says why once, and tries with longer and longer pauses.
func TestDeadIKEDaemonIsStartedAgain(t *testing.T) {
	w := tunnelled(t)
	w.ike.die()
	w.run(hint(IKELane))
	w.pass(w.n.opts.Debounce)
	w.pass(hintGap)
	w.wantIKE(twoEnds, conn4, conn5)
	w.wantReady()

	w.ike.refuse = func(op dataplane.Op) error {
		if _, ok := op.Object.(dataplane.IKEDaemon); ok {
			return errors.New("charon: not found")
		}
		return nil
	}
	w.ike.die()
	w.ike.asked()
	w.pass(12 * time.Second) // the longest time between two looks
	w.wantReason("ike: add ike charon: charon: not found")
	if op := w.ike.asked()[0][0].String(); op != "add ike charon" {
		t.Errorf("the first op is %q", op)
	}
	w.pass(5 * time.Minute)
	if n := len(w.ike.asked()); n < 10 || n > 40 {
		t.Errorf("%d attempts in five minutes", n)
	}
	if n := w.count("ike-failed"); n != 1 {
		t.Errorf("%d lines about the same failure:\n%s", n, w.log())
	}
	w.ike.refuse = nil
	w.pass(time.Minute)
	w.wantIKE(twoEnds, conn4, conn5)
	w.wantReady()
}

// The node repairs connections and keys that differ, and leaves connections outside
// its networks alone.
func TestIKEDriftIsRepaired(t *testing.T) {
	const foreign = "conn 192.168.64.3-10.9.3.0/24-10.9.4.0/24-192.168.64.4" + esp
	for name, change := range map[string][2]string{
		"a changed proposal":    {"conn " + conn4 + esp, "conn " + conn4 + " esp null\n"},
		"another form":          {"conn " + conn4 + esp, "conn " + conn4 + " esp aes128gcm16 other start=none\n"},
		"a missing connection":  {"conn " + conn4 + esp, ""},
		"a missing key":         {ikeKey4, ""},
		"a key of another text": {ikeKey4, "shared-key 192.168.64.4 psk-2\n"},
		"a key too many":        {ikeKey4, ikeKey4 + "shared-key 192.168.64.9 psk-1\n"},
		"a connection too many": {ikeKey4, ikeKey4 + "conn " + strings.ReplaceAll(conn5, "5.0/24", "9.0/24") + esp},
		"a foreign connection":  {ikeKey4, ikeKey4},
	} {
		t.Run(name, func(t *testing.T) {
			w := tunnelled(t)
			have, err := dataplane.ParseDump(strings.Replace(twoEnds, change[0], change[1], 1) + foreign +
				"tunnel " + conn4 + "\ntunnel " + conn5 + "\n")
			if err != nil {
				t.Fatal(err)
			}
			w.ike.state = have
			w.pass(12 * time.Second)
			w.wantIKE(twoEnds+foreign, conn4, conn5)
			w.wantReady()
		})
	}
}

// The connection of a peer that left is unloaded with its key and its tunnel. The
// other peer's stays untouched.
func TestConnectionOfAGonePeerIsUnloaded(t *testing.T) {
	w := tunnelled(t)
	w.desireIKE(oneEnd)
	w.wantIKE(oneEnd, conn4)
	w.wantReady()
	for _, op := range slices.Concat(w.ike.asked()...) {
		if strings.Contains(op.String(), "64.4") {
			t.Errorf("peer 4 is still there, and the node wants: %s", op)
		}
	}
}

// During an outage of the datastore, the node unloads nothing.
func TestConnectionsStayDuringAnOutage(t *testing.T) {
	w := tunnelled(t)
	snap := w.n.store.view.Snapshot
	w.run(Input{View: &lease.View{Snapshot: snap, Err: errors.New("connection refused")}})
	w.desireIKE(oneEnd)
	w.pass(time.Minute)
	w.wantIKE(twoEnds, conn4, conn5)
	w.run(Input{View: &lease.View{Snapshot: snap, Synced: true}})
	w.wantIKE(oneEnd, conn4)
	w.wantReady()
}

// A former key that the kernel does not remove, or that comes back, keeps no node from being ready.
func TestFormerKeysAreNoTrouble(t *testing.T) {
	for name, refusal := range map[string]error{"refused": driver.ErrDenied, "comes back": nil} {
		t.Run(name, func(t *testing.T) {
			w := tunnelled(t)
			own, gone := netip.MustParseAddr("192.168.64.3"), netip.MustParseAddr("192.168.64.9")
			key := dataplane.FormerKey{From: own, To: gone}
			w.ike.state.Put(key) // the fake keeps it, whatever it is asked
			w.ike.refuse = func(op dataplane.Op) error {
				if op.Object == key {
					return refusal
				}
				return nil
			}
			for range 10 {
				w.pass(time.Minute)
				w.wantReady()
			}
			asked := func(op dataplane.Op) bool { return op.Object == key }
			if !slices.ContainsFunc(slices.Concat(w.ike.asked()...), asked) {
				t.Error("the node never asked for the key's removal")
			}
		})
	}
}

// A tunnel that does not come is a problem of its peer: the node is ready, the status
// names the peer, and the node asks for the tunnel with longer and longer pauses.
func TestMissingTunnelIsAProblemOfThePeer(t *testing.T) {
	w := tunnelled(t)
	w.ike.away = true
	w.ike.state.Tunnels.DeleteFunc(func(_ dataplane.ConnKey, t dataplane.Tunnel) bool { return t.Name() == conn4 })
	w.pass(12 * time.Second)
	w.wantReady()
	want := []string{"peer 10.5.4.0-24: no tunnel to 192.168.64.4 yet; IKE needs UDP 500 and 4500, ESP protocol 50"}
	if got := w.status().Problems; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	w.pass(time.Hour)
	w.wantReady()
	plans := w.ike.asked()
	if n := len(plans); n < 12 || n > 24 {
		t.Errorf("the node asked %d times in an hour", n)
	}
	for _, plan := range plans {
		if len(plan) != 1 || plan[0].String() != "add tunnel "+conn4 {
			t.Fatalf("plan %v", plan)
		}
	}
	w.ike.away = false
	w.pass(6 * time.Minute)
	w.wantIKE(twoEnds, conn4, conn5)
	if got := w.status().Problems; len(got) > 0 {
		t.Errorf("problems %q", got)
	}
}

// A daemon that cannot be read keeps the node from being ready. Looks that fail have
// longer and longer pauses.
func TestIKEDaemonCannotBeRead(t *testing.T) {
	w := tunnelled(t)
	w.ike.err = errors.New("charon.vici: connection refused")
	w.pass(12 * time.Second)
	w.wantReason("ike: cannot read the IKE daemon: charon.vici: connection refused")
	looks := w.ike.looks
	w.pass(5 * time.Minute)
	if n := w.ike.looks - looks; n < 10 || n > 40 {
		t.Errorf("%d looks in five minutes", n)
	}
	w.ike.err = nil
	w.pass(time.Minute)
	w.wantReady()
}

// An IKE daemon ends when none is desired any more, and the node then stops looking.
func TestIKEDaemonEnds(t *testing.T) {
	w := tunnelled(t)
	w.desireIKE("")
	w.wantIKE("")
	w.wantReady()
	looks := w.ike.looks
	w.pass(time.Hour)
	if w.ike.looks != looks || w.status().Lanes[IKELane].Watched {
		t.Errorf("%d looks although no IKE daemon is desired", w.ike.looks-looks)
	}
}

// Records that are not rendered yet withhold the end of an IKE daemon that is no longer desired. It ends
// after the rendering.
func TestWithheldEndOfTheIKEDaemon(t *testing.T) {
	w := tunnelled(t)
	rendered := w.n.host.want.snap
	w.n.host.want.snap = nil
	w.desireIKE("")
	w.wantIKE(twoEnds, conn4, conn5)
	w.n.host.want.snap = rendered
	w.pass(time.Minute)
	w.wantIKE("")
	if w.status().Lanes[IKELane].Watched {
		t.Error("the node still looks for an IKE daemon")
	}
}

// An orderly stop ends the IKE daemon, which takes its keys along.
func TestStopEndsTheIKEDaemon(t *testing.T) {
	w := tunnelled(t)
	w.n.Step(w.now, Input{Stop: true})
	plan := w.n.Ready().Lanes[IKELane].Plan
	if len(plan) != 1 || plan[0].String() != "del ike charon" {
		t.Errorf("plan %v", plan)
	}
}
