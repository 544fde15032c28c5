package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// foreign is a protocol other than flannel's, whose routes are kept in lists.
const foreign = 77

// twoLinks returns a host with two links that hold all gateways of the routes
// drawn.
func twoLinks(t *rapid.T, w *world.World, name string) *Host {
	h := NewNetwork(w).NewHost(name)
	for i, link := range []string{"eth0", "eth1"} {
		mac := dataplane.MAC{2, 0, 0, 0, 0, byte(i)}
		err := h.AddEthernet(dataplane.Link{Name: link, MTU: 1500, MAC: mac, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []string{"10.9.%d.1/24", "fd09:0:0:%d::1/64"} {
			if err := h.AddrAdd(link, netip.MustParsePrefix(fmt.Sprintf(a, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h
}

func drawRoute(t *rapid.T) dataplane.Route {
	prefix := func(forms ...string) netip.Prefix {
		return netip.MustParsePrefix(rapid.SampledFrom(forms).Draw(t, "dst"))
	}
	r := dataplane.Route{OnLink: rapid.Bool().Draw(t, "onlink")}
	r.Metric = rapid.SampledFrom([]uint32{0, 0, 5}).Draw(t, "metric")
	r.Dst = prefix("10.1.0.0/16", "10.1.2.0/24", "fd01::/32", "fd01:0:1::/48")
	if rapid.IntRange(0, 9).Draw(t, "dead") == 0 {
		return dataplane.Route{RouteKey: r.RouteKey, Kind: dataplane.Blackhole}
	}
	i := rapid.IntRange(0, 1).Draw(t, "link")
	r.Link = []string{"eth0", "eth1"}[i]
	if host := rapid.IntRange(1, 3).Draw(t, "gateway"); host > 1 { // .1 is the host itself
		form := [...]string{"10.9.%d.%d", "fd09:0:0:%d::%d"}[cidr.FamilyOf(r.Dst.Addr())]
		r.Via = netip.MustParseAddr(fmt.Sprintf(form, i, host))
	} else {
		r.OnLink = false
	}
	return r
}

// routesOf returns all routes that are not the kernel's own, in the order of a
// dump.
func routesOf(h *Host) (out []dataplane.Route) {
	for _, f := range cidr.Families {
		notKernel := func(r *route) bool { return r.proto != dataplane.ProtocolKernel }
		for _, r := range h.stack.fibs[f].list(h.stack.fibs[f].dsts, notKernel) {
			v := r.value()
			v.Protocol = 0
			out = append(out, v)
		}
	}
	return out
}

// TestCompactRoutes gives two hosts the same history. Routes of flannel's
// protocol are kept as numbers where possible, foreign ones never.
func TestCompactRoutes(t *testing.T) {
	packed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := world.New(1)
		ours, theirs := twoLinks(t, w, "ours"), twoLinks(t, w, "theirs")
		both := func(do func(h *Host, protocol uint8) error) {
			a, b := do(ours, dataplane.Protocol), do(theirs, foreign)
			if (a == nil) != (b == nil) {
				t.Fatalf("ours: %v; theirs: %v", a, b)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "actions") {
			r := drawRoute(t)
			switch action := rapid.IntRange(0, 9).Draw(t, "action"); action {
			case 0:
				link, up := rapid.SampledFrom([]string{"eth0", "eth1"}).Draw(t, "of"), rapid.Bool().Draw(t, "up")
				both(func(h *Host, _ uint8) error {
					if up {
						return h.LinkUp(link)
					}
					return h.LinkDown(link)
				})
			case 1:
				both(func(h *Host, _ uint8) error { return h.FlushRoutes("eth0") })
			case 2, 3:
				both(func(h *Host, p uint8) error { r.Protocol = p; return h.RouteAppend(r) })
			default:
				verb := []dataplane.Verb{dataplane.Create, dataplane.Replace, dataplane.Delete}[action%3]
				both(func(h *Host, p uint8) error {
					r.Protocol = p
					return h.stack.apply(dataplane.Op{Verb: verb, Object: r})
				})
			}
			packed += ours.stack.fibs[cidr.V4].len() - len(ours.stack.fibs[cidr.V4].lists)
			if n := theirs.stack.fibs[cidr.V4].plain.used; n != 0 {
				t.Fatalf("%d foreign routes are kept as numbers", n)
			}
			if d := cmp.Diff(routesOf(theirs), routesOf(ours), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
				t.Fatalf("tables (-lists +numbers):\n%s", d)
			}
			for _, f := range cidr.Families {
				if a, b := ours.stack.fibs[f].ofLen, theirs.stack.fibs[f].ofLen; a != b {
					t.Fatalf("destinations by length: %v, want %v", a, b)
				}
			}
			for _, to := range []string{"10.1.2.3", "10.1.9.9", "fd01::1", "fd01:0:1::1"} {
				dst := netip.MustParseAddr(to)
				a, b := ours.stack.fibs[cidr.FamilyOf(dst)].lookup(dst), theirs.stack.fibs[cidr.FamilyOf(dst)].lookup(dst)
				differs := func() bool { return a.dst != b.dst || a.via != b.via || (a.link == nil) != (b.link == nil) }
				if (a == nil) != (b == nil) || a != nil && differs() {
					t.Fatalf("to %s: %+v, want %+v", dst, a, b)
				}
			}
		}
	})
	if packed == 0 {
		t.Error("no route was ever kept as a number")
	}
}

// TestLinkTables compares the tables of a link with maps.
func TestLinkTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newValues()
		ns, fs := newNeighs(v), newFDB(v)
		wantN, wantF := map[netip.Addr]neigh{}, map[dataplane.MAC]fdbEntry{}
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, rapid.ByteRange(0, 5).Draw(t, "ip")})
			mac := dataplane.MAC{2, 0, 0, 0, 0, rapid.ByteRange(0, 5).Draw(t, "mac")}
			permanent := rapid.Bool().Draw(t, "permanent")
			switch rapid.IntRange(0, 5).Draw(t, "action") {
			case 0:
				ns.delete(ip)
				delete(wantN, ip)
				fs.delete(mac)
				delete(wantF, mac)
			case 1:
				ns.remove(func(_ netip.Addr, n neigh) bool { return n.permanent == permanent })
				maps.DeleteFunc(wantN, func(_ netip.Addr, n neigh) bool { return n.permanent == permanent })
				fs.remove(func(m dataplane.MAC, e fdbEntry) bool { return e.value == ip || m == mac })
				maps.DeleteFunc(wantF, func(m dataplane.MAC, e fdbEntry) bool { return e.value == ip || m == mac })
			default:
				ns.set(ip, neigh{mac, permanent})
				wantN[ip] = neigh{mac, permanent}
				fs.set(mac, fdbEntry{ip, permanent})
				wantF[mac] = fdbEntry{ip, permanent}
			}
			if n, ok := ns.get(ip); n != wantN[ip] || ok != slices.Contains(slices.Collect(maps.Keys(wantN)), ip) {
				t.Fatalf("neighbour %s: %v, %v", ip, n, ok)
			}
			if e, ok := fs.get(mac); e != wantF[mac] || ok != slices.Contains(slices.Collect(maps.Keys(wantF)), mac) {
				t.Fatalf("FDB entry %s: %v, %v", mac, e, ok)
			}
			if !maps.Equal(maps.Collect(ns.all), wantN) || !maps.Equal(maps.Collect(fs.all), wantF) {
				t.Fatalf("%v and %v, want %v and %v", maps.Collect(ns.all), maps.Collect(fs.all), wantN, wantF)
			}
		}
	})
}
