package node

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// moved gives the node's host another address, and lets the node publish it.
func (w *world) moved(addresses ...string) {
	w.facts.Links = slices.Clone(w.facts.Links)
	w.facts.Links[0].Addrs = nil
	for _, a := range addresses {
		addr := driver.LinkAddr{Prefix: netip.MustParsePrefix(a), Permanent: true}
		w.facts.Links[0].Addrs = append(w.facts.Links[0].Addrs, addr)
	}
	w.run(hint(HostLane))
	w.pass(time.Second)
	w.tell()
	w.pass(time.Second)
}

// A datastore is restored from a backup made before the node's last write, and
// its revision has passed the node's by the time the node sees it.
func TestRestoredStoreHasPassedUs(t *testing.T) {
	for name, history := range map[string]uint64{"same cluster id": 0, "another cluster id": 77} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.tell()
			w.pass(time.Second)
			backup := w.snap
			before := w.own()
			w.moved("192.168.64.103/24")
			if a := w.snap.Leases[0].Attrs.PublicIP.String(); a != "192.168.64.103" {
				t.Fatalf("the store holds %s\n%s", a, w.log())
			}
			w.snap = backup
			w.rev += 1000
			w.snap.Revision, w.snap.History = w.rev, history
			w.tell()
			w.pass(time.Minute)
			if got := *w.snap.Leases[0]; got.Attrs.PublicIP.String() != "192.168.64.103" || got.Key != before.Key {
				t.Errorf("the store holds %v\n%s", got, w.log())
			}
			if len(w.snap.Leases) != 1 || w.count("lease-lost") != 0 || w.count("store-restored") != 1 {
				t.Errorf("%d leases\n%s", len(w.snap.Leases), w.log())
			}
			w.wantReady()
		})
	}
}

// In a history of its own, a store may give the node's subnet to another host.
func TestRestoredStoreGaveOurSubnetAway(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	own := w.own()
	other := vxlanPeer(own.Key.String(), 9)
	other.CreateRevision, other.ModRevision = own.CreateRevision, own.ModRevision
	w.rev += 1000
	w.snap.Revision, w.snap.History = w.rev, 77
	w.snap.Leases = []*lease.Lease{&other}
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	if got := w.own(); got.Key == own.Key || w.count("lease-lost") != 1 {
		t.Errorf("own record %v\n%s", got, w.log())
	}
	if got, _ := findLease(&w.snap, own.Key); got.Attrs.PublicIP != other.Attrs.PublicIP {
		t.Errorf("the other's record is %v", got)
	}
}

// --subnet-lease-ttl holds for a lease of a former run as well. The node asks a store
// that has a shortest or a longest TTL only once.
func TestChangedTTLHoldsForAFormerLease(t *testing.T) {
	for name, granted := range map[string]time.Duration{"as asked": time.Hour, "bounded by the store": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig)
			w.tell()
			w.pass(time.Second)
			own := w.own()
			w.start(func(o *Options) { o.LeaseTTL = time.Hour })
			w.answer = func(r Request) (lease.Grant, error) {
				if r.Verb != Update {
					return lease.Grant{}, nil
				}
				rec := w.put(lease.Lease{Key: r.Grant.Key, Attrs: r.Attrs, ID: 5})
				return lease.Grant{Lease: rec, TTL: granted, Expires: w.now.Add(granted)}, nil
			}
			requests := len(w.requests)
			w.tell()
			w.pass(10 * time.Minute)
			updates := 0
			for _, r := range w.requests[requests:] {
				if r.Verb == Update {
					updates++
					if r.TTL != time.Hour || !r.Attrs.Equal(own.Attrs) {
						t.Errorf("update to %v for %s", r.Attrs, r.TTL)
					}
				}
			}
			if updates != 1 || w.own().Key != own.Key || w.n.lease.grant.TTL != granted {
				t.Errorf("%d updates, TTL %s\n%s", updates, w.n.lease.grant.TTL, w.log())
			}
			w.wantReady()
		})
	}
}

// A cluster is off for so long that all its leases end. The node that comes
// back first keeps no peers: no accident took their records.
func TestLongOffKeepsNoPeers(t *testing.T) {
	for name, off := range map[string]time.Duration{"a day and more": 30 * time.Hour, "an hour": time.Hour} {
		w := readyWorld(t)
		w.pass(time.Minute)
		w.snap.Leases = nil
		w.rev++
		w.snap.Revision = w.rev
		w.host = dataplane.NewState()
		w.now = w.now.Add(off)
		w.start()
		w.tell()
		w.pass(time.Minute)
		w.wantReady()
		want := 0
		if off < 24*time.Hour { // within the TTL the records cannot have ended
			want = 2
		}
		if got := w.host.Routes.Len(); got != want {
			t.Errorf("off for %s: %d routes, want %d\n%s", name, got, want, w.log())
		}
	}
}
