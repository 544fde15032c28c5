package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// objectsFrom is the option of a node whose routes use next-hop objects from that many peers on.
func objectsFrom(peers int) func(*Options) {
	return func(o *Options) { o.NextHopsFrom = peers }
}

// peerAt puts the i-th peer of a world into its store.
func (w *world) peerAt(i int) lease.Key {
	w.t.Helper()
	return w.put(vxlanPeer(fmt.Sprintf("10.5.%d.0-24", 10+i), byte(10+i))).Key
}

// wantObjects checks that the host has so many routes to peers, all over next-hop objects
// or none, and no object without a route.
func (w *world) wantObjects(routes int, over bool) {
	w.t.Helper()
	w.wantReady()
	objects := 0
	for _, r := range w.host.Routes.All {
		h, ok := w.host.NextHops.Get(r.NextHop)
		if ok {
			objects++
		}
		if ok != over || over && (h.Link != r.Link || h.Via != r.Via || h.OnLink != r.OnLink) {
			w.t.Errorf("%s over %s", r, h)
		}
	}
	if w.host.Routes.Len() != routes || w.host.NextHops.Len() != objects {
		w.t.Errorf("want %d routes, over next hops %t:\n%s", routes, over, w.host.Dump())
	}
}

// A node uses next-hop objects from a number of peers on, and goes on until half as many
// are left.
func TestNextHopsFromANumberOfPeers(t *testing.T) {
	w := newWorld(t, vxlanConfig, objectsFrom(4))
	w.facts.NextHops = true
	var keys []lease.Key
	set := func(peers int, over bool) {
		t.Helper()
		for len(keys) < peers {
			keys = append(keys, w.peerAt(len(keys)))
		}
		for len(keys) > peers {
			w.remove(keys[len(keys)-1])
			keys = keys[:len(keys)-1]
		}
		w.tell()
		w.pass(10 * time.Second)
		w.wantObjects(peers, over)
	}
	set(3, false)
	set(4, true)
	set(6, true)
	set(2, true)
	w.start(objectsFrom(4)) // it finds the objects of the last run
	w.tell()
	w.pass(10 * time.Second)
	w.wantObjects(2, true)
	set(1, false)
	set(3, false)
}

// Without the kernel's support, or with the number 0, no route uses an object, and objects
// of an earlier run go.
func TestNoNextHops(t *testing.T) {
	for name, c := range map[string]struct {
		from   int
		kernel bool
	}{"old kernel": {1, false}, "number 0": {0, true}} {
		w := newWorld(t, vxlanConfig, objectsFrom(c.from))
		w.facts.NextHops = c.kernel
		w.host.Put(dataplane.NextHop{ID: 0x0a050900, Link: "eth0"})
		w.host.Put(dataplane.NextHop{ID: 0x0a060900, Link: "eth0"}) // of another network
		w.peerAt(0)
		w.tell()
		w.pass(10 * time.Second)
		if _, left := w.host.NextHops.Get(0x0a060900); !left || w.host.NextHops.Len() != 1 {
			t.Errorf("%s:\n%s", name, w.host.Dump())
		}
		w.host.NextHops.Delete(0x0a060900)
		w.wantObjects(1, false)
	}
}

// The plan makes an object before its route, and deletes it after the route.
func TestOrderOfNextHops(t *testing.T) {
	w := newWorld(t, vxlanConfig, objectsFrom(1))
	w.facts.NextHops = true
	key := w.peerAt(0)
	w.peerAt(1)
	at := func(verb dataplane.Verb, word string) int {
		t.Helper()
		all := slices.Concat(w.plans...)
		return slices.IndexFunc(all, func(op dataplane.Op) bool {
			return (op.Verb == dataplane.Delete) == (verb == dataplane.Delete) && dataplane.Word(op.Object) == word
		})
	}
	w.tell()
	w.pass(10 * time.Second)
	if hop, route := at(dataplane.Create, "nexthop"), at(dataplane.Create, "route"); hop < 0 || hop > route {
		t.Errorf("next hop at %d, route at %d", hop, route)
	}
	w.remove(key)
	w.tell()
	w.pass(10 * time.Second)
	if hop, route := at(dataplane.Delete, "nexthop"), at(dataplane.Delete, "route"); hop < route || route < 0 {
		t.Errorf("deleted next hop at %d, route at %d", hop, route)
	}
	w.wantObjects(1, true)
}

// A next hop that the kernel refuses is its peer's problem, with the kernel's reason. One that
// failed for lack of memory is not, although the kernel then calls its route invalid.
func TestRefusedNextHop(t *testing.T) {
	for _, refusal := range []error{driver.ErrUnreachable, driver.ErrBusy} {
		w := newWorld(t, vxlanConfig, objectsFrom(1))
		w.facts.NextHops = true
		key := w.peerAt(0)
		w.peerAt(1)
		bad := dataplane.NextHopFor(key.V4)
		w.applyErr = func(op dataplane.Op) error {
			switch o := op.Object.(type) {
			case dataplane.NextHop:
				if o.ID == bad {
					return fmt.Errorf("%s: %w", op, refusal)
				}
			case dataplane.Route:
				if o.NextHop == bad {
					return fmt.Errorf("%s: %w", op, driver.ErrInvalid)
				}
			}
			return nil
		}
		w.tell()
		w.pass(10 * time.Second)
		theirs := refusal == driver.ErrUnreachable
		if s := w.status(); s.Ready != theirs || (w.count("peer-refused") > 0) != theirs {
			t.Errorf("%v: ready %t, refused %d:\n%s", refusal, s.Ready, w.count("peer-refused"), w.log())
		}
		if problems := w.status().Problems; theirs && (len(problems) != 1 || w.host.NextHops.Len() != 1) {
			t.Errorf("problems %v\n%s", problems, w.host.Dump())
		}
		w.applyErr = nil
		w.pass(10 * time.Minute)
		w.wantObjects(2, true)
	}
}
