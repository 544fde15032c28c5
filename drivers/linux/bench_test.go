package linux

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

const benchLink = "flannel.1"

// benchExtent covers every object of overlay.
var benchExtent = dataplane.Extent{
	Links:    []string{benchLink},
	Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
}

// overlay makes a vxlan device and returns ops for that many peers.
func overlay(t testing.TB, w *world, verb dataplane.Verb, peers int) []dataplane.Op {
	t.Helper()
	if err := w.host.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500, TxQLen: -1},
		PeerName:  "eth0", PeerNamespace: netlink.NsFd(w.farNS),
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, w.d, []dataplane.Op{{Verb: dataplane.Create, Object: dataplane.Link{
		Name: benchLink, MTU: 1450, Up: true,
		Params: dataplane.VXLAN{VNI: 1, Port: 8472, Parent: "eth0", Local: netip.MustParseAddr("192.168.64.3")},
	}}})
	return peerOps(verb, peers)
}

// peerOps returns a neighbour, an FDB entry and a route for each peer, in the
// order in which a plan has them.
func peerOps(verb dataplane.Verb, peers int) []dataplane.Op {
	ops := make([]dataplane.Op, 3*peers)
	for i := range peers {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i>>8) + 1, byte(i), 0}), 24)
		mac := dataplane.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}
		ops[i] = dataplane.Op{Verb: verb, Object: dataplane.Neigh{
			NeighKey: dataplane.NeighKey{Link: benchLink, IP: subnet.Addr()}, MAC: mac,
		}}
		ops[peers+i] = dataplane.Op{Verb: verb, Object: dataplane.FDBEntry{
			FDBKey: dataplane.FDBKey{Link: benchLink, MAC: mac}, Dst: netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}),
		}}
		ops[2*peers+i] = dataplane.Op{Verb: verb, Object: dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: subnet}, Link: benchLink, Via: subnet.Addr(), OnLink: true,
			Protocol: dataplane.Protocol,
		}}
	}
	return ops
}

func apply(t testing.TB, d *Driver, ops []dataplane.Op) {
	t.Helper()
	for _, err := range d.Apply(t.Context(), ops) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkApply measures how long the kernel takes to learn of all peers.
func BenchmarkApply(b *testing.B) {
	for _, peers := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			w := newWorld(b)
			add := overlay(b, w, dataplane.Create, peers)
			del := peerOps(dataplane.Delete, peers)
			b.ReportAllocs()
			for b.Loop() {
				apply(b, w.d, add)
				b.StopTimer()
				apply(b, w.d, del)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(add)), "ns/object")
		})
	}
}

// BenchmarkLook measures a look at all peers, in wall and CPU time.
func BenchmarkLook(b *testing.B) {
	for _, peers := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			w := newWorld(b)
			apply(b, w.d, overlay(b, w, dataplane.Create, peers))
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				if s := w.look(b, benchExtent); s.Len() < 3*peers {
					b.Fatalf("observed %d objects", s.Len())
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkLookCrowded measures a look at 100 peers on a host with 1,000 other
// devices and, except for 0, the routes of a routing daemon. A look takes the
// routes from the last look's reading, or reads the tables.
func BenchmarkLookCrowded(b *testing.B) {
	for _, routes := range []int{0, 50_000} {
		w := newWorld(b)
		apply(b, w.d, overlay(b, w, dataplane.Create, 100))
		crowd(b, w, 1000, routes)
		for _, read := range []string{"memory", "tables"} {
			b.Run(fmt.Sprintf("devices=1000/routes=%d/read=%s", routes, read), func(b *testing.B) {
				b.ReportAllocs()
				start := cpuTime(b)
				for b.Loop() {
					if read == "tables" {
						w.d.routes = nil
					}
					if s := w.look(b, benchExtent); s.Len() < 300 {
						b.Fatalf("observed %d objects", s.Len())
					}
				}
				b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// crowd adds devices with an address each, and routes through the first of them
// with the protocol of BGP.
func crowd(t testing.TB, w *world, devices, routes int) {
	t.Helper()
	const bgp = 186
	var via netip.Addr
	for i := range devices {
		name := fmt.Sprintf("pod%d", i)
		device := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name, TxQLen: -1, Flags: net.FlagUp},
			PeerName:  name, PeerNamespace: netlink.NsFd(w.farNS),
		}
		own := netip.AddrFrom4([4]byte{172, 16 + byte(i>>14), byte(i >> 6), byte(i<<2) + 1})
		if i == 0 {
			via = own.Next()
		}
		err := w.host.LinkAdd(device)
		if err == nil {
			l := must(w.host.LinkByName(name))
			err = w.host.AddrAdd(l, &netlink.Addr{IPNet: linuxtest.IPNet(netip.PrefixFrom(own, 30))})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ops := make([]dataplane.Op, routes)
	for i := range ops {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{20 + byte(i>>16), byte(i >> 8), byte(i), 0}), 24)
		ops[i] = dataplane.Op{Verb: dataplane.Create, Object: dataplane.Route{
			RouteKey: dataplane.RouteKey{Dst: dst}, Link: "pod0", Via: via, Protocol: bgp,
		}}
	}
	apply(t, w.d, ops)
}

// cpuTime returns the CPU time of the process, in user and kernel mode.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
