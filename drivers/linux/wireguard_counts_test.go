package linux

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestWireGuardCounts sends packets between two devices in this process: good ones, some from a
// source that the peer may not have, and some to a device that is down.
func TestWireGuardCounts(t *testing.T) {
	needTUN(t)
	w := newWorld(t)
	pair := newWGPair(t, w, true, 0)
	now := func(d *Driver, link string) dataplane.Running {
		t.Helper()
		r, ok := must(d.Look(t.Context(), pair.extent)).State.Running[link]
		if !ok {
			t.Fatalf("%s does not say how it carries packets", link)
		}
		for _, reason := range []string{
			"truncated", "bad_offload", "too_big", "not_ip", "spoofed", "device_refused", "socket_refused",
		} {
			if _, counted := r.Drops[reason]; !counted {
				t.Errorf("%s has no counter %s: %v", link, reason, r.Drops)
			}
		}
		return r
	}
	other := func() dataplane.Running { return now(pair.otherDriver, pair.other.Name) }
	own, others := now(w.d, wgLink), other()
	if own.Tier != "gso" {
		t.Errorf("tier %q: %s", own.Tier, own.Reason)
	}
	src := dataplane.Addr{Link: wgLink, Prefix: netip.MustParsePrefix("10.1.0.1/32")}
	route := dataplane.Route{RouteKey: dataplane.RouteKey{Dst: netip.MustParsePrefix("10.2.0.0/24")},
		Link: wgLink, Scope: dataplane.ScopeLink}
	apply(t, w.d, wgOps(dataplane.Create, src, route))
	const packets = 50
	pair.send(w.d, packets, netip.MustParseAddr("10.1.0.1"))
	eventually(t, "the other device has carried them", func() bool { return other().Carried >= others.Carried+packets })
	if sent := now(w.d, wgLink).Carried - own.Carried; sent < packets {
		t.Errorf("the sender counts %d packets, of %d", sent, packets)
	}
	apply(t, w.d, wgOps(dataplane.Create, dataplane.Addr{Link: wgLink, Prefix: netip.MustParsePrefix("10.9.0.1/32")}))
	pair.send(w.d, packets, netip.MustParseAddr("10.9.0.1"))
	eventually(t, "packets with a foreign source are counted", func() bool { return other().Drops["spoofed"] >= packets })
	down := pair.other
	down.Up = false
	apply(t, pair.otherDriver, wgOps(dataplane.Replace, down))
	pair.send(w.d, packets, netip.MustParseAddr("10.1.0.1"))
	eventually(t, "packets to a device that is down are counted",
		func() bool { return other().Drops["device_refused"] >= packets })
}

// send sends packets through wgLink to the other device.
func (pair *wgPair) send(d *Driver, packets int, from netip.Addr) {
	pair.t.Helper()
	err := d.ns.Do(func() error {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		if err := unix.Bind(s, &unix.SockaddrInet4{Addr: from.As4()}); err != nil {
			return err
		}
		for range packets {
			to := &unix.SockaddrInet4{Addr: [4]byte{10, 2, 0, 1}, Port: 9}
			if err := unix.Sendto(s, make([]byte, 100), 0, to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		pair.t.Fatal(err)
	}
}
