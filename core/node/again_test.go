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
)

// atRest returns a ready node whose looks at few objects show nothing else, and that has just had
// a whole look.
func atRest(t *testing.T) *world {
	w := readyWorld(t)
	w.blind = true
	w.pass(time.Minute)
	w.looks, w.plans = nil, nil
	return w
}

// moves gives the peer with 10.5.3.0/24 another MAC, and lets the node follow.
func (w *world) moves(mac byte) {
	w.put(vxlanPeer("10.5.3.0-24", mac))
	w.tell()
	w.pass(time.Second)
}

// again returns the looks so far: the objects that each reads, in order, or "all".
func (w *world) again() []string {
	var looks []string
	for _, e := range w.looks {
		if e.Again == nil {
			looks = append(looks, "all")
			continue
		}
		texts := make([]string, len(e.Again))
		for i, o := range e.Again {
			texts[i] = o.String()
		}
		slices.Sort(texts)
		looks = append(looks, strings.Join(texts, ", "))
	}
	w.looks = nil
	return looks
}

// TestLooksAtWhatALeaseChanges changes one lease: the look before the plan and the one after it
// read the objects that it concerns and no others.
func TestLooksAtWhatALeaseChanges(t *testing.T) {
	w := atRest(t)
	w.moves(9)
	w.wantReady()
	want := "fdb c6:00:00:00:00:04 dst 192.168.64.4 dev flannel.1, " +
		"fdb c6:00:00:00:00:09 dst 192.168.64.9 dev flannel.1, " +
		"neigh 10.5.3.0 lladdr c6:00:00:00:00:09 dev flannel.1"
	if got := w.again(); !slices.Equal(got, []string{want, want}) {
		t.Errorf("looks at %q, want two at %q", got, want)
	}
	mac := dataplane.FDBKey{Link: "flannel.1", MAC: dataplane.MAC{0xc6, 0, 0, 0, 0, 4}}
	if len(w.plans) != 1 || w.host.FDB.Has(mac) {
		t.Errorf("plans %v, want one that deletes the former FDB entry", w.plans)
	}

	// A peer that goes, and a lease that is renewed.
	w.remove(vxlanPeer("10.5.3.0-24", 9).Key)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if got := w.again(); len(got) != 2 || slices.Contains(got, "all") || w.host.Neighs.Len() != 1 {
		t.Errorf("looks at %q for a peer that goes, and %d neighbours", got, w.host.Neighs.Len())
	}
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(time.Second)
	if got := w.again(); !slices.Equal(got, []string{""}) {
		t.Errorf("looks at %q for nothing, want one at no object", got)
	}
}

// TestChangeNeedsNoIndex changes one lease on a host with pods. The node makes no list of all
// peers for that.
func TestChangeNeedsNoIndex(t *testing.T) {
	w := atRest(t)
	bridge := dataplane.Route{
		RouteKey: dataplane.RouteKey{Dst: w.status().Subnet.V4}, Link: "cni0",
		Scope: dataplane.ScopeLink, Protocol: dataplane.ProtocolKernel,
	}
	w.host.AddRoute(bridge)
	w.run(hint(HostLane))
	w.pass(time.Minute)
	w.moves(9)
	w.wantReady()
	if w.n.host.want.indexed != nil || !w.host.Routes.Has(bridge.RouteKey) {
		t.Error("the node has an index of all peers, or the host has lost a route")
	}
}

// TestWholeLooksKeepTheirPace changes a lease every second. Whole looks come as often as
// without that, and find what another program has changed.
func TestWholeLooksKeepTheirPace(t *testing.T) {
	w := atRest(t)
	w.host.Routes.DeleteFunc(every)
	whole := 0
	for i := range 90 {
		w.moves(byte(20 + i))
		for _, look := range w.again() {
			if look == "all" {
				whole++
			}
		}
	}
	if whole < 2 || whole > 6 {
		t.Errorf("%d whole looks in a minute and a half, want one each half a minute", whole)
	}
	w.wantReady()
	if w.host.Routes.Len() != 2 {
		t.Errorf("%d routes after a minute and a half, want 2", w.host.Routes.Len())
	}
}

// TestUnusualLooksReadAll brings about what a look at few objects is not meant for.
func TestUnusualLooksReadAll(t *testing.T) {
	for name, c := range map[string]struct {
		cause func(w *world)
		at    int // the number of the first whole look
	}{
		"a hint before the look": {cause: func(w *world) {
			w.put(vxlanPeer("10.5.3.0-24", 9))
			w.tell()
			w.run(hint(HostLane))
			w.pass(time.Second)
		}},
		"many leases": {cause: func(w *world) {
			for i := range byte(30) {
				w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 50+i), 50+i))
			}
			w.tell()
			w.pass(time.Second)
		}},
		"a failed op": {at: 1, cause: func(w *world) {
			failed := false
			w.applyErr = func(dataplane.Op) error {
				if failed {
					return nil
				}
				failed = true
				return driver.ErrBusy
			}
			w.moves(9)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := atRest(t)
			c.cause(w)
			if got := w.again(); slices.Index(got, "all") != c.at {
				t.Errorf("looks at %q, want number %d at everything", got, c.at)
			}
		})
	}
}

// beginsLook changes a lease and returns the look at few objects that the node asks for.
func (w *world) beginsLook() Effects {
	w.t.Helper()
	w.put(vxlanPeer("10.5.3.0-24", 9))
	w.n.Step(w.now, Input{View: w.view()})
	w.now = w.now.Add(time.Second)
	w.n.Step(w.now, Input{})
	r := w.n.Ready()
	if look := r.Lanes[HostLane].Look; look == nil || look.Extent.Again == nil {
		w.t.Fatalf("look %+v, want one at few objects", look)
	}
	return r
}

// TestPlanNeedsAReading changes a lease while the look for another one is under way. The node
// changes no object that it has not read: it looks at everything first.
func TestPlanNeedsAReading(t *testing.T) {
	w := atRest(t)
	in, _ := w.perform(w.beginsLook())
	w.put(vxlanPeer("10.5.4.0-24", 10))
	in.View = w.view()
	w.run(in)
	w.pass(time.Second)
	w.wantReady()
	if got := w.again(); len(got) < 2 || got[1] != "all" {
		t.Errorf("looks at %q, want the second one at everything", got)
	}
}

// TestChangesWaitForTheirLook changes a lease while the look is under way that shows the effect of a plan for another
// one. That look ends as if nothing had happened, and the change has looks at few objects of its own, one debounce
// later: in a cluster where leases change all the time, the node would otherwise look at everything without a pause.
func TestChangesWaitForTheirLook(t *testing.T) {
	w := atRest(t)
	effects := w.beginsLook()
	for range 2 { // the look, then the plan
		in, _ := w.perform(effects)
		w.n.Step(w.now, in)
		effects = w.n.Ready()
	}
	in, _ := w.perform(effects)
	if len(w.looks) != 2 || in.Lanes[HostLane].Looked == nil {
		t.Fatalf("%d looks, want the second one to be under way after the plan", len(w.looks))
	}
	w.put(vxlanPeer("10.5.4.0-24", 10))
	in.View = w.view()
	changed := w.now
	w.run(in)
	w.wantReady() // while the change waits for its look
	if s := w.status(); s.Programmed >= s.Revision {
		t.Errorf("programmed revision %d of %d before the look at the change", s.Programmed, s.Revision)
	}
	w.pass(time.Second)
	w.wantReady()
	if s := w.status(); s.Programmed != s.Revision {
		t.Errorf("programmed revision %d of %d after the look at the change", s.Programmed, s.Revision)
	}
	if got := w.again(); len(got) != 4 || slices.Contains(got, "all") {
		t.Errorf("looks at %q, want four at few objects", got)
	}
	if at := w.n.hostLane().lastLook; at.Sub(changed) < w.n.opts.Debounce || len(w.plans) != 2 {
		t.Errorf("%d plans, the last look %v after the change, want it a debounce later", len(w.plans), at.Sub(changed))
	}
}

// TestRefusedPeerNeedsAReading lets the time of a new attempt for a refused peer come while the
// node looks because of another peer. The attempt is not over before the kernel has been asked.
func TestRefusedPeerNeedsAReading(t *testing.T) {
	w := readyWorld(t)
	w.applyErr = func(op dataplane.Op) error {
		if o, ok := op.Object.(dataplane.Route); ok && o.Dst == netip.MustParsePrefix("10.5.4.0/24") {
			return fmt.Errorf("%w", driver.ErrUnreachable)
		}
		return nil
	}
	w.host.Routes.DeleteFunc(every)
	w.pass(time.Minute)
	again := w.n.host.refusals.at
	w.put(vxlanPeer("10.5.3.0-24", 9))
	w.now = again.Add(-w.n.opts.Debounce - 2*time.Millisecond)
	w.n.Step(w.now, Input{View: w.view()})
	w.now = again.Add(-time.Millisecond)
	w.n.Step(w.now, Input{})
	r := w.n.Ready()
	if r.Lanes[HostLane].Look == nil {
		t.Fatal("no look because of the changed lease")
	}
	in, _ := w.perform(r)
	w.now = again.Add(time.Millisecond)
	w.run(in)
	w.pass(time.Second)
	if n := w.count("peer-accepted"); n != 0 || len(w.status().Problems) != 1 {
		t.Errorf("told %d times that the kernel accepts the peer, problems %q", n, w.status().Problems)
	}
}
