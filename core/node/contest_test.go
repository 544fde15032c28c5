package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// rival is another program that changes a host's VXLAN device as soon as the node has
// repaired it.
type rival struct {
	w      *world
	change func(*dataplane.Link)
}

// act changes the device for so long, and returns the number of the node's plans meanwhile.
func (r rival) act(lasts time.Duration) (plans int) {
	w := r.w
	before, end := len(w.plans), w.now.Add(lasts)
	for w.now.Before(end) {
		link := w.host.Links["flannel.1"]
		r.change(&link)
		w.host.AddLink(link)
		w.run(hint(HostLane))
		w.pass(100 * time.Millisecond)
	}
	return len(w.plans) - before
}

var rivals = map[string]func(*dataplane.Link){
	"another MAC address": func(l *dataplane.Link) { l.MAC = dataplane.MAC{2, 9, 9, 9, 9, 9} },
	"another device": func(l *dataplane.Link) {
		params := vxlanOf(*l)
		params.VNI = 9
		l.Params = params
	},
}

// TestContestedDevice lets another program change the device back each time. The node
// repairs the first change at once, the others after ever longer pauses, and says so.
func TestContestedDevice(t *testing.T) {
	for name, change := range rivals {
		t.Run(name, func(t *testing.T) {
			w := readyWorld(t)
			r := rival{w, change}
			if plans := r.act(600 * time.Millisecond); plans < 1 {
				t.Fatalf("the first change is not repaired at once\n%s", w.log())
			}
			if plans := r.act(5 * time.Minute); plans < 8 || plans > 30 {
				t.Errorf("%d plans in five minutes, want a few", plans)
			}
			if s := w.status(); s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), "undoes this repair each time") {
				t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
			}
			if n := w.count("repairs-undone"); n != 1 {
				t.Errorf("said so %d times", n)
			}
			w.pass(contestCuts*6/5 + contestQuiet)
			w.wantReady()
			if plans := r.act(600 * time.Millisecond); plans < 1 {
				t.Errorf("after a quiet time the first change is not repaired at once\n%s", w.log())
			}
		})
	}
}

// TestUndoneRepairs lets another program undo a repair every 200 ms for five minutes. The first repairs are made at
// once; then the node is not ready, names the object, and repairs it after pauses, until its repair has lasted.
func TestUndoneRepairs(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(w *world)
		names  string
	}{
		"route": {func(w *world) { w.loseRoute(77) }, "add route 10.5.77.0/24"},
		"neighbour": {func(w *world) {
			w.host.Neighs.DeleteFunc(
				func(dataplane.NeighKey, dataplane.Neigh) bool { return true })
		}, "replace neigh 10.5.77.0"},
		"FDB entry": {func(w *world) {
			w.host.FDB.DeleteFunc(
				func(dataplane.FDBKey, dataplane.FDBEntry) bool { return true })
		}, "replace fdb "},
		"address": {func(w *world) { clear(w.host.Addrs) }, "replace addr 10.5."},
		"device":  {func(w *world) { w.unplug("flannel.1") }, "add link flannel.1"},
		"link down": {func(w *world) {
			link := w.host.Links["flannel.1"]
			link.Up = false
			w.host.AddLink(link)
		}, "replace link flannel.1"},
		"foreign route": {func(w *world) {
			w.host.AddRoute(dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.9.0/24")},
				Link: "eth0", Protocol: dataplane.Protocol})
		}, "del route 10.5.9.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.put(vxlanPeer("10.5.77.0-24", 77))
			w.tell()
			w.pass(time.Second)
			w.wantReady()
			act := func(lasts time.Duration) (plans int) {
				before, end := len(w.plans), w.now.Add(lasts)
				for w.now.Before(end) {
					c.damage(w)
					w.run(hint(HostLane))
					w.pass(200 * time.Millisecond)
				}
				return len(w.plans) - before
			}
			applied := w.count("applied")
			if plans := act(2 * time.Second); plans < contestFree {
				t.Fatalf("%d plans in two seconds: the first repairs are not made at once\n%s", plans, w.log())
			}
			for range 10 {
				plans := act(30 * time.Second)
				if s := w.status(); s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), c.names) {
					t.Fatalf("ready %t, reasons %q", s.Ready, s.Reasons)
				}
				if plans > 20 {
					t.Errorf("%d plans in 30 seconds", plans)
				}
			}
			if n := w.count("repairs-undone"); n != 1 {
				t.Errorf("said so %d times", n)
			}
			if n := w.count("applied") - applied; n > contestFree+1 {
				t.Errorf("%d repairs have a line in the log\n%s", n, w.log())
			}
			w.pass(contestCuts*6/5 + contestQuiet)
			w.wantReady()
			if plans := act(200 * time.Millisecond); plans < 1 {
				t.Error("after a quiet time the first repair is not made at once")
			}
		})
	}
}

// TestRepairsFarApart undoes a repair every two minutes: the node repairs it each time at once and stays ready.
func TestRepairsFarApart(t *testing.T) {
	w := worldOfPeers(t, 1)
	for range 10 {
		w.loseRoute(100)
		w.run(hint(HostLane))
		w.pass(2 * hintGap)
		w.wantReady()
		w.pass(2 * contestQuiet)
	}
	if n := w.count("repairs-undone"); n != 0 {
		t.Errorf("%d warnings", n)
	}
}

// TestDifferentRepairs deletes other routes each time, two at once: no repair is undone.
func TestDifferentRepairs(t *testing.T) {
	w := worldOfPeers(t, 20)
	applied := w.count("applied")
	for i := range 10 {
		for _, third := range []int{100 + 2*i, 101 + 2*i} {
			w.loseRoute(third)
		}
		w.run(hint(HostLane))
		w.pass(500 * time.Millisecond)
		w.wantReady()
	}
	if n := w.count("applied") - applied; n != 10 || w.count("repairs-undone") != 0 {
		t.Errorf("%d of 10 repairs are logged, and %d warnings\n%s", n, w.count("repairs-undone"), w.log())
	}
}

// TestUndoneRepairDelaysNoOther lets another program delete a route again and again. Another damage is repaired at
// once meanwhile.
func TestUndoneRepairDelaysNoOther(t *testing.T) {
	w := worldOfPeers(t, 2)
	for range 300 {
		w.loseRoute(100)
		w.run(hint(HostLane))
		w.pass(200 * time.Millisecond)
	}
	for w.host.Routes.Has(dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.100.0/24")}) {
		w.loseRoute(100)
		w.run(hint(HostLane))
	}
	w.loseRoute(101)
	w.run(hint(HostLane))
	w.pass(2 * hintGap)
	if !w.host.Routes.Has(dataplane.RouteKey{Dst: netip.MustParsePrefix("10.5.101.0/24")}) {
		t.Errorf("the other route is missing\n%s", w.log())
	}
}

// worldOfPeers is a world whose node is ready and has that many peers, with the subnets 10.5.100.0/24 and following.
func worldOfPeers(t *testing.T, peers int) *world {
	t.Helper()
	w := newWorld(t, vxlanConfig)
	for i := range peers {
		w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 100+i), byte(100+i)))
	}
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	return w
}

// loseRoute deletes the route to a peer with the subnet 10.5.N.0/24.
func (w *world) loseRoute(n int) {
	dst := netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", n))
	w.host.Routes.Delete(dataplane.RouteKey{Dst: dst})
}

// TestContestDelaysNothingElse lets another program change the device back while a peer comes that
// is reached without it: the node adds that route at once, and nothing to the device.
func TestContestDelaysNothingElse(t *testing.T) {
	w := newWorld(t, strings.Replace(vxlanConfig, `"vxlan"`, `"vxlan","DirectRouting":true`, 1))
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	r := rival{w, rivals["another MAC address"]}
	r.act(time.Minute)
	var until time.Time
	for _, c := range w.n.hostLane().contests.of {
		if c.until.After(until) {
			until = c.until
		}
	}
	if until.Before(w.now.Add(2 * time.Second)) {
		t.Fatalf("the next repair of the device is at %s, and it is %s", until, w.now)
	}
	p := vxlanPeer("10.5.77.0-24", 77)
	w.put(p)
	w.tell()
	w.run(hint(HostLane))
	w.pass(time.Second)
	route, ok := w.host.Routes.Get(dataplane.RouteKey{Dst: p.Key.V4})
	if !ok || route.Link != "eth0" {
		t.Errorf("route to the new peer: %v\n%s", route, w.log())
	}
	if mac := w.host.Links["flannel.1"].MAC; mac != (dataplane.MAC{2, 9, 9, 9, 9, 9}) {
		t.Errorf("the device has the MAC address %s again, in spite of the pause", mac)
	}
	if w.host.FDB.Len() > 0 {
		t.Errorf("the device has entries: %s", w.host.Dump())
	}
	w.pass(contestCuts*6/5 + contestQuiet)
	w.wantReady()
}
