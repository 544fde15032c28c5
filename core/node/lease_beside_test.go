package node

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// besideWorld returns the world of a WireGuard node that holds a lease beside the reservation
// of its former subnet, which it cannot use any more.
func besideWorld(t *testing.T) (w *world, reserved lease.Key) {
	reserved = mustKey("10.5.9.0-24")
	w = wireguardWorld(t, func(o *Options) { o.Previous = reserved })
	record := w.own()
	record.ID = 0
	w.put(record)
	w.configure(`{"Network":"10.5.0.0/16","SubnetMin":"10.5.16.0","Backend":{"Type":"wireguard"}}`)
	w.pass(10 * time.Second)
	w.wantReady()
	if got, _ := w.n.Holding(); got.V4 == reserved.V4 || len(w.snap.Leases) != 2 {
		t.Fatalf("holds %s, leases %v", got, w.snap.Leases)
	}
	return w, reserved
}

// wantAddress fails unless the reservation has an address, and is one still.
func (w *world) wantAddress(reserved lease.Key, address string) {
	w.t.Helper()
	r, _ := findLease(&w.snap, reserved)
	if r.Attrs.PublicIP != netip.MustParseAddr(address) || !r.Reserved() {
		w.t.Errorf("reservation %v, want the address %s\n%s", r, address, w.log())
	}
}

// TestReservationBesideTheLease gives a node another address. Its reservation gets it too: peers
// take two records with one key and two addresses for two hosts. If another host writes the
// reservation, as one with a copy of the key file would, the node does not insist.
func TestReservationBesideTheLease(t *testing.T) {
	w, reserved := besideWorld(t)
	w.moved("192.168.64.77/24")
	w.pass(time.Minute)
	w.wantAddress(reserved, "192.168.64.77")
	w.wantReady()
	if w.count("reservation-updated") != 1 || w.count("lease-copied") != 0 || w.count("lease-disputed") != 0 {
		t.Errorf("log:\n%s", w.log())
	}
	own, _ := w.n.Holding()
	mine, _ := findLease(&w.snap, own)
	if r, _ := findLease(&w.snap, reserved); mine.ModRevision < r.ModRevision {
		t.Errorf("lease %v was written before the reservation %v, so peers send to that", mine, r)
	}
	r, _ := findLease(&w.snap, reserved)
	r.Attrs.PublicIP = netip.MustParseAddr("192.168.64.88")
	w.put(r)
	w.tell()
	w.pass(time.Hour)
	w.wantAddress(reserved, "192.168.64.88")
	w.moved("192.168.64.78/24")
	w.pass(time.Minute)
	w.wantAddress(reserved, "192.168.64.78")
}

// TestReservationIsNotWritten lets the store refuse the change of the reservation. The node
// keeps its lease and is ready; once the store allows the change, the node makes it.
func TestReservationIsNotWritten(t *testing.T) {
	for name, answer := range map[string]error{
		"refused": errors.New("permission denied"), "gone": lease.ErrLost,
	} {
		w, reserved := besideWorld(t)
		w.answer = func(r Request) (lease.Grant, error) {
			if r.Verb == Update && r.Grant.Key == reserved {
				return lease.Grant{}, answer
			}
			return lease.Grant{}, nil
		}
		w.moved("192.168.64.77/24")
		requests := len(w.requests)
		w.pass(time.Hour)
		w.wantReady()
		if got := w.asked(Update, requests); got > 80 {
			t.Errorf("%s: %d requests in an hour, want about one a minute", name, got)
		}
		w.moved("192.168.64.78/24")
		w.pass(time.Second)
		own, _ := w.n.Holding()
		if r, _ := findLease(&w.snap, own); r.Attrs.PublicIP != netip.MustParseAddr("192.168.64.78") {
			t.Errorf("%s: the node's own record waits with the reservation: %+v", name, r)
		}
		w.moved("192.168.64.77/24")
		if w.count("lease-lost") != 0 {
			t.Errorf("%s: log:\n%s", name, w.log())
		}
		w.answer = nil
		w.pass(10 * time.Minute)
		if !errors.Is(answer, lease.ErrLost) {
			w.wantAddress(reserved, "192.168.64.77")
		}
	}
}

// TestReservationWithOurMACBesideTheLease gives a dual-stack vxlan node another IPv6 address. Its reservation, of which
// it uses the IPv4 half alone, gets the address too and keeps all else: peers take two records with one MAC address and
// two addresses for two hosts.
func TestReservationWithOurMACBesideTheLease(t *testing.T) {
	w := newReserved(t, dualConfig)
	w.configure(bounds("10.5.8.0", "10.5.31.0"))
	w.pass(10 * time.Second)
	w.wantReady()
	before, _ := findLease(&w.snap, mustKey(pinned))
	w.moved("192.168.64.3/24", "fd00:a::77/64")
	w.pass(time.Minute)
	w.wantReady()
	got, _ := findLease(&w.snap, mustKey(pinned))
	want := before
	want.Attrs.PublicIPv6, want.ModRevision = netip.MustParseAddr("fd00:a::77"), got.ModRevision
	if !got.Reserved() || !got.Attrs.Equal(want.Attrs) {
		t.Errorf("reservation %v, want %v\n%s", got, want, w.log())
	}
	w.configure(`{"Network":"10.5.0.0/16","SubnetMin":"10.5.8.0","Backend":{"Type":"vxlan"}}`)
	w.pass(time.Minute)
	w.wantReady()
	if again, _ := findLease(&w.snap, mustKey(pinned)); again.ModRevision != got.ModRevision {
		t.Errorf("reservation %v was written again, when IPv6 went off: %v", got, again)
	}
}
