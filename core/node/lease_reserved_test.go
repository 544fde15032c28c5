package node

import (
	"errors"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

const onlyV6Config = `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`

// pinned is the reservation that the tests below begin with.
const pinned = "10.5.7.0-24&fd00:10:0:7::-64"

// newReserved returns a world with a peer and a node that uses the reservation pinned.
func newReserved(t *testing.T, conf string) *world {
	w := newWorld(t, conf)
	w.put(vxlanPeer("10.5.3.0-24", 4))
	rec := vxlanPeer(pinned, 3)
	rec.ID = 0
	w.put(rec)
	w.tell()
	w.pass(10 * time.Second)
	w.wantReady()
	return w
}

// forget begins a new run of the daemon without its files.
func (w *world) forget() {
	clear(w.files)
	w.start()
}

// wantHeld fails unless the node is ready with the subnets of want in some families,
// among so many records, and the reservation is as it was.
func (w *world) wantHeld(want lease.Key, records int, before lease.Lease) {
	w.t.Helper()
	w.wantReady()
	got, _ := w.n.Holding()
	for _, f := range cidr.Families {
		if p := want.Of(f); p.IsValid() && got.Of(f) != p {
			w.t.Errorf("holds %s, want %s", got, want)
		}
	}
	rec, _ := findLease(&w.snap, before.Key)
	if len(w.snap.Leases) != records || !rec.Reserved() || rec.ModRevision != before.ModRevision {
		w.t.Errorf("leases %v, want %d and reservation %v", w.snap.Leases, records, before)
	}
}

// A reservation that does not fit any more stays. The node makes one lease with the
// half that fits, comes back to it after a restart, and uses the reservation when it
// fits again.
func TestKeepsTheHalfOfAReservation(t *testing.T) {
	v4, v6 := lease.Key{V4: mustKey(pinned).V4}, lease.Key{V6: mustKey(pinned).V6}
	runs := map[string]func(*world){
		"in one run":                func(*world) {},
		"after a restart":           func(w *world) { w.start() },
		"after a loss of all files": (*world).forget,
	}
	for _, c := range []struct {
		name, from, to string
		kept           lease.Key
	}{
		{"IPv6 is switched off", dualConfig, vxlanConfig, v4},
		{"IPv4 is switched off", dualConfig, onlyV6Config, v6},
		{"IPv4 moves", dualConfig, otherV4Config, v6},
		{"SubnetMin rises", bounds("10.5.1.0", "10.5.15.0"), bounds("10.5.8.0", "10.5.31.0"), v6},
	} {
		for name, again := range runs {
			t.Run(c.name+" "+name, func(t *testing.T) {
				w := newReserved(t, c.from)
				before, _ := findLease(&w.snap, mustKey(pinned))
				again(w)
				w.configure(c.to)
				w.pass(10 * time.Second)
				w.wantHeld(c.kept, 3, before)
				again(w)
				w.tell()
				w.pass(10 * time.Second)
				w.wantHeld(c.kept, 3, before)
			})
		}
	}
}

// The reservation fits again: the node gives up the lease that it made meanwhile.
func TestReturnsToTheReservation(t *testing.T) {
	for _, one := range []string{vxlanConfig, onlyV6Config} {
		w := newReserved(t, dualConfig)
		w.configure(one)
		w.pass(10 * time.Second)
		if one == vxlanConfig {
			w.start()
		}
		w.configure(dualConfig)
		w.pass(10 * time.Second)
		w.wantReady()
		if got, _ := w.n.Holding(); got != mustKey(pinned) || len(w.snap.Leases) != 2 || w.count("lease-lost") > 0 {
			t.Errorf("after %s: holds %s, leases %v\n%s", one, got, w.snap.Leases, w.log())
		}
	}
}

// The store makes the lease beside the reservation, and its answer is lost: the
// node finds that lease.
func TestLeaseBesideAReservationWithoutAnAnswer(t *testing.T) {
	w := newReserved(t, dualConfig)
	before, _ := findLease(&w.snap, mustKey(pinned))
	lose := true
	w.answer = func(r Request) (lease.Grant, error) {
		if r.Verb != Create || !lose {
			return lease.Grant{}, nil
		}
		lose = false
		_, _ = w.store(r)
		return lease.Grant{}, errors.New("no answer")
	}
	w.configure(vxlanConfig)
	w.pass(time.Second)
	w.tell()
	w.pass(time.Minute)
	w.wantHeld(lease.Key{V4: before.Key.V4}, 3, before)
}

// A half of the reservation that another node has taken meanwhile is not kept.
func TestTakenHalfOfAReservation(t *testing.T) {
	w := newReserved(t, dualConfig)
	before, _ := findLease(&w.snap, mustKey(pinned))
	w.put(vxlanPeer("10.5.7.128-25", 5))
	w.configure(vxlanConfig)
	w.pass(10 * time.Second)
	w.wantHeld(lease.Key{}, 4, before)
	if got, _ := w.n.Holding(); got.Overlaps(before.Key) {
		t.Errorf("holds %s", got)
	}
}
