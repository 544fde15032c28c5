package node

import (
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
			if s := w.status(); s.Ready || !strings.Contains(strings.Join(s.Reasons, "\n"), "changes flannel.1 back each time") {
				t.Errorf("ready %t, reasons %q", s.Ready, s.Reasons)
			}
			if n := w.count("device-contested"); n != 1 {
				t.Errorf("said so %d times", n)
			}
			w.pass(contestMost * 6 / 5)
			w.wantReady()
			w.pass(2 * contestQuiet)
			if plans := r.act(600 * time.Millisecond); plans < 1 {
				t.Errorf("after a quiet time the first change is not repaired at once\n%s", w.log())
			}
		})
	}
}

// TestUncontestedDevice deletes the device again and again, and sets it down: the node
// repairs that each time, since its own repair cuts nothing.
func TestUncontestedDevice(t *testing.T) {
	for name, damage := range map[string]func(w *world){
		"deleted": func(w *world) { w.unplug("flannel.1") },
		"down": func(w *world) {
			link := w.host.Links["flannel.1"]
			link.Up = false
			w.host.AddLink(link)
		},
	} {
		w := readyWorld(t)
		for round := range 10 {
			damage(w)
			w.run(hint(HostLane))
			w.pass(2 * hintGap)
			if s := w.status(); !s.Ready {
				t.Fatalf("%s, round %d: %q", name, round, s.Reasons)
			}
		}
	}
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
	until := w.n.host.contests.of["flannel.1"].until
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
	w.pass(contestMost * 6 / 5)
	w.wantReady()
}
