package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// interop E5: the node never writes over a record that belongs to another node now.
func TestNeverWritesOverAnother(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	thief := w.own()
	thief.Attrs.PublicIP = netip.MustParseAddr("192.168.64.9")
	w.put(thief)
	requests := len(w.requests)
	w.tell()
	w.pass(time.Minute)
	for _, r := range w.requests[requests:] {
		if r.Verb != Create && r.Verb != Renew && keyOf(r) == thief.Key {
			t.Errorf("%s of another's record", r.Verb)
		}
	}
	w.wantReady()
}

// interop E6: the node repairs its record after a foreign write, the first time at
// once and then after ever longer pauses.
func TestDisputedRecord(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	requests := len(w.requests)
	for range 8 {
		rec := w.own()
		rec.Attrs.BackendData = []byte(`{"VNI":1,"VtepMAC":"c6:00:00:00:00:77"}`)
		w.put(rec)
		w.tell()
		w.run(Input{})
		if reasons := strings.Join(w.status().Reasons, "; "); !strings.Contains(reasons, "another program wrote our record") {
			t.Fatalf("reasons %q while the repair waits", reasons)
		}
		w.pass(time.Second)
	}
	updates := len(w.requests) - requests
	if updates == 0 || updates > 4 || w.count("lease-disputed") == 0 {
		t.Errorf("%d updates in eight seconds\n%s", updates, w.log())
	}
}

// interop E7: of two dual-stack keys that share a half the older one stays.
func TestOverlapGoesToTheOlder(t *testing.T) {
	conf := `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"alloc"}}`
	rival := func(own lease.Key) lease.Lease {
		l := vxlanPeer("10.5.3.0-24", 4)
		l.Key = lease.Key{V4: own.V4, V6: netip.MustParsePrefix("fd00:10:0:7777::/64")}
		return l
	}
	t.Run("ours is younger", func(t *testing.T) {
		w := newWorld(t, conf)
		w.answer = func(r Request) (lease.Grant, error) {
			w.answer = nil
			if r.Verb == Create {
				w.put(rival(r.Key))
			}
			return lease.Grant{}, nil
		}
		w.tell()
		w.pass(5 * time.Second)
		w.wantReady()
		if len(w.snap.Leases) != 2 || w.count("lease-overlap") != 1 {
			t.Errorf("leases %v\n%s", w.snap.Leases, w.log())
		}
		if w.snap.Leases[0].Key.Overlaps(w.snap.Leases[1].Key) {
			t.Errorf("leases still overlap: %v", w.snap.Leases)
		}
	})
	t.Run("ours is older", func(t *testing.T) {
		w := newWorld(t, conf)
		w.tell()
		w.pass(time.Second)
		own := w.own()
		w.put(rival(own.Key))
		w.tell()
		w.pass(5 * time.Second)
		if w.own().Key != own.Key || w.count("lease-overlap") != 0 {
			t.Errorf("gave way to a younger record\n%s", w.log())
		}
	})
}

// The snapshot with the older record comes while the node waits for an answer: it
// does not program the shared half meanwhile.
func TestOverlapDuringARequest(t *testing.T) {
	w := newWorld(t, dualConfig)
	w.held = true
	w.tell()
	w.configure(vxlanConfig)
	shared := w.pending.Key.V4
	rival := vxlanPeer("10.5.3.0-24", 4)
	rival.Key = lease.Key{V4: shared, V6: netip.MustParsePrefix("fd00:10:0:7777::/64")}
	w.put(rival)
	w.run(Input{Requested: w.serve()})
	if w.pending == nil || w.pending.Verb != Move {
		t.Fatalf("request %v, want a move to a subnet without IPv6", w.pending)
	}
	w.tell()
	w.pass(time.Second)
	if key, holds := w.n.Holding(); holds {
		t.Errorf("holds %s beside the older record %s\n%s", key, rival.Key, w.log())
	}
	w.held = false
	w.run(Input{Requested: w.serve(), View: w.view()})
	w.pass(5 * time.Second)
	w.wantReady()
	if key, _ := w.n.Holding(); key.Overlaps(rival.Key) {
		t.Errorf("holds %s beside the older record %s\n%s", key, rival.Key, w.log())
	}
}

// garble overwrites a record with an undecodable value.
func (w *world) garble(l lease.Lease) {
	w.rev++
	w.snap.Revision = w.rev
	w.snap.Quarantined = []lease.Quarantined{
		{Raw: "subnets/" + l.Key.String(), Key: l.Key, Reason: "not JSON", OverwroteAt: w.rev},
	}
	w.tell()
}

// The node repairs its own record after an undecodable value has replaced it. It
// writes over that value and no other.
func TestOwnRecordOverwritten(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	own := w.own()
	w.garble(own)
	if s := w.status(); s.Ready || s.Fenced {
		t.Errorf("status %+v", s)
	}
	w.answer = func(r Request) (lease.Grant, error) {
		w.snap.Quarantined = nil
		g := lease.Grant{Lease: w.put(lease.Lease{Key: own.Key, Attrs: r.Attrs, ID: own.ID}), TTL: time.Hour,
			Expires: w.now.Add(time.Hour)}
		return g, nil
	}
	requests := len(w.requests)
	w.pass(time.Minute)
	if got := w.requests[requests:]; len(got) != 1 || got[0].Verb != Update || got[0].Grant.ModRevision != w.rev-1 {
		t.Errorf("requests %v", got)
	}
	w.wantReady()
}

// The node repairs a record that was overwritten twice as well.
func TestOwnRecordOverwrittenTwice(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	w.tell()
	w.pass(time.Second)
	own := w.own()
	for range 2 {
		w.garble(own)
	}
	requests := len(w.requests)
	w.held = true
	w.pass(time.Minute)
	if got := w.requests[requests:]; len(got) != 1 || got[0].Verb != Update || got[0].Grant.ModRevision != w.rev {
		t.Errorf("requests %v, want an update of revision %d", got, w.rev)
	}
}

// Another program corrects the record before its owner does: with the text from
// before, or with an address that the owner had then.
func TestOwnRecordPutRightByAnother(t *testing.T) {
	for _, move := range []bool{false, true} {
		w := newWorld(t, vxlanConfig, func(o *Options) { o.ExitOnLoss = true })
		w.tell()
		w.pass(time.Second)
		own := w.own()
		w.garble(own)
		w.held = move
		if move {
			w.facts.Links[0].Addrs[0].Prefix = netip.MustParsePrefix("192.168.64.5/24")
			w.pass(time.Minute)
		}
		w.snap.Quarantined = nil
		w.put(own)
		w.tell()
		if w.exit != nil || w.count("lease-lost") != 0 {
			t.Fatalf("moved: %t: our own address is taken for another's\n%s", move, w.log())
		}
		if !move {
			w.wantReady()
		}
	}
}

// A record that is no subnet of the network drives no node away, however old.
func TestHostileOverlapIsIgnored(t *testing.T) {
	w := newWorld(t, vxlanConfig, func(o *Options) { o.Previous = mustKey("10.5.9.0-24") })
	w.tell()
	w.pass(time.Second)
	own := w.own()
	hostile := vxlanPeer("10.0.0.0-8", 66)
	hostile.CreateRevision = 1
	w.put(hostile)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if w.own().Key != own.Key || w.count("peer-refused") != 1 {
		t.Errorf("own record %v\n%s", w.own(), w.log())
	}
}

// A reservation that overlaps an older record is given up but not deleted.
func TestOverlappingReservationIsKept(t *testing.T) {
	w := newWorld(t, vxlanConfig)
	older := vxlanPeer("10.5.8.0-23", 4)
	w.put(older)
	rec := vxlanPeer("10.5.9.0-24", 3)
	rec.ID = 0
	w.put(rec)
	w.tell()
	w.pass(2 * time.Second)
	if len(w.snap.Leases) != 3 || w.count("reservation-unfit") != 1 {
		t.Errorf("leases %v\n%s", w.snap.Leases, w.log())
	}
}

// Two hosts that came to share a VTEP: the younger record draws another, once.
func TestCopiedVTEP(t *testing.T) {
	for _, older := range []bool{true, false} {
		w := newWorld(t, vxlanConfig)
		w.tell()
		w.pass(time.Second)
		before := w.own()
		other := vxlanPeer("10.5.3.0-24", 4)
		other.Attrs.BackendData = before.Attrs.BackendData
		if older {
			other.CreateRevision = 1
		}
		w.put(other)
		w.tell()
		w.pass(time.Second)
		w.tell()
		w.pass(time.Minute)
		if changed := !w.own().Attrs.Equal(before.Attrs); changed != older || w.own().Key != before.Key {
			t.Errorf("other is older: %t; record %v became %v", older, before, w.own())
		}
		if older {
			w.wantReady()
			if w.count("lease-copied") != 1 || !strings.Contains(w.host.Dump(), "route 10.5.3.0/24") {
				t.Errorf("log:\n%s\nhost:\n%s", w.log(), w.host.Dump())
			}
		}
	}
}

// wireguardWorld returns the world of a node with a WireGuard key that holds a lease.
func wireguardWorld(t *testing.T, mod ...func(*Options)) *world {
	w := newWorld(t, strings.Replace(vxlanConfig, `"vxlan"`, `"wireguard"`, 1), mod...)
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	w.tell()
	w.pass(time.Second)
	return w
}

// A clone of the host has its WireGuard key and another address. It starts and takes the record over, as a host
// without a memory does that finds its key. The node does not take it back: each would take it from the other for ever.
func TestCedesToAClone(t *testing.T) {
	w := wireguardWorld(t)
	clone := w.own()
	clone.Attrs.PublicIP = netip.MustParseAddr("192.168.64.9")
	clone = w.put(clone)
	w.tell()
	w.pass(time.Minute)
	w.wantKept(clone)
	w.wantReady()
}

// TestTakesItsFormerRecord starts a node with another address than its last run, which a
// decommissioned machine had before. The node takes the record of its former subnet over, since
// peers would serve that older record of its key and refuse the other one.
func TestTakesItsFormerRecord(t *testing.T) {
	before := wireguardWorld(t).own()
	w := newWorld(t, strings.Replace(vxlanConfig, `"vxlan"`, `"wireguard"`, 1),
		func(o *Options) { o.Previous = before.Key })
	w.facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{7}}}
	other := before
	other.Key = mustKey("10.5.3.0-24")
	other.ID, other.CreateRevision = 3, 0
	other.Attrs.BackendData = []byte(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)
	before.Attrs.PublicIP = netip.MustParseAddr("192.168.64.9")
	w.put(before)
	w.put(other)
	w.tell()
	w.pass(time.Minute)
	w.wantReady()
	own, _ := w.n.Holding()
	record, _ := findLease(&w.snap, before.Key)
	if own != before.Key || record.Attrs.PublicIP != netip.MustParseAddr("192.168.64.3") || w.count("lease-copied") != 0 {
		t.Errorf("holds %s, and its former record is %v\n%s", own, record, w.log())
	}
}

// wantKept checks that the datastore still holds a record of another host.
func (w *world) wantKept(other lease.Lease) {
	w.t.Helper()
	if kept, ok := findLease(&w.snap, other.Key); !ok || !kept.Attrs.Equal(other.Attrs) {
		w.t.Errorf("the other host's record %v became %v", other, kept)
	}
}

// While the backend changes from wireguard to vxlan, a record of vxlan names a MAC address and no key. It belongs to
// its address.
func TestMACAddressIsNoKey(t *testing.T) {
	w := wireguardWorld(t)
	behind := vxlanPeer("10.5.91.0-24", 91)
	behind.Attrs = lease.Attrs{PublicIP: behind.Attrs.PublicIP, BackendType: "wireguard",
		BackendData: []byte(`{"PublicKey":"CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`),
		Ways:        lease.Ways{Present: []byte(`{"Type":"wireguard"}`)}}
	w.put(behind)
	w.tell()
	w.configure(vxlanConfig)
	w.pass(time.Second)
	if !w.n.transition.Set().Has(`{"Type":"wireguard"}`) {
		t.Fatalf("no change under way:\n%s", w.log())
	}
	other := w.own()
	w.remove(other.Key)
	other.Key, other.Attrs.PublicIP = mustKey("10.5.3.0-24"), netip.MustParseAddr("192.168.64.9")
	other = w.put(other)
	w.tell()
	w.pass(time.Minute)
	w.wantKept(other)
	w.wantReady()
}

// A copied WireGuard key is in a file, so the log tells the operator to delete that: the node
// cannot draw another.
func TestCopiedKey(t *testing.T) {
	w := wireguardWorld(t)
	other := vxlanPeer("10.5.3.0-24", 4)
	other.Attrs.BackendType, other.Attrs.BackendData = "wireguard", w.own().Attrs.BackendData
	other.CreateRevision = 1
	w.put(other)
	w.tell()
	w.pass(time.Second)
	if w.count("lease-copied") != 1 || !strings.Contains(w.log(), "delete the key file of one of the two hosts") {
		t.Errorf("log:\n%s", w.log())
	}
}

// A late write of a former process leaves a newer record of the host with its key. The
// node writes its own record again, once: peers serve the newest record of a key.
func TestNewerRecordOfTheSameHost(t *testing.T) {
	w := wireguardWorld(t)
	own := w.own()
	late := own
	late.Key, late.CreateRevision = mustKey("10.5.3.0-24"), 0
	late = w.put(late)
	requests := len(w.requests)
	w.tell()
	w.pass(time.Minute)
	if got := w.requests[requests:]; len(got) != 1 || got[0].Verb != Update || w.own().ModRevision < late.ModRevision {
		t.Errorf("requests %v, own record of revision %d, the other one of %d", got, w.own().ModRevision, late.ModRevision)
	}
	if w.own().Key != own.Key || !w.own().Attrs.Equal(own.Attrs) {
		t.Errorf("own record %v became %v", own, w.own())
	}
	w.wantReady()
}

// Two hosts that share address and key each find the record of the other one newer. Their
// writes become ever rarer.
func TestTwoHostsWithOneKeyWriteRarely(t *testing.T) {
	w := wireguardWorld(t)
	twin := w.own()
	twin.Key, twin.CreateRevision = mustKey("10.5.3.0-24"), 0
	requests := len(w.requests)
	for range 1800 {
		if w.own().ModRevision > twin.ModRevision || len(w.snap.Leases) == 1 {
			twin = w.put(twin) // the other host answers at once
			w.tell()
		}
		w.pass(time.Second)
	}
	if updates := len(w.requests) - requests; updates < 5 || updates > 20 {
		t.Errorf("%d writes in half an hour\n%s", updates, w.log())
	}
}

// TestForgedRecordWithTheAddressOfAHostWithoutFiles: a host that has lost its files keeps the subnet of its pods,
// though another program has written a younger record with its address.
func TestForgedRecordWithTheAddressOfAHostWithoutFiles(t *testing.T) {
	w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	own := w.own()
	forged := own
	forged.Key, forged.CreateRevision = mustKey("10.5.3.0-24"), 0
	w.put(forged)
	gateway := netip.PrefixFrom(own.Key.V4.Addr().Next(), own.Key.V4.Bits())
	w.facts.Links = append(slices.Clone(w.facts.Links), driver.Link{
		Name: "cni0", Index: 9, Up: true, Addrs: []driver.LinkAddr{{Prefix: gateway}},
	})
	w.forget()
	w.tell()
	w.pass(time.Second)
	w.wantReady()
	if got, _ := w.n.Holding(); got != own.Key {
		t.Errorf("holds %s, want %s", got, own.Key)
	}
}
