package bench

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/internal/wholedump"
)

// BenchmarkPeerChange measures the time from a change of one peer's MAC in the
// store to the new neighbour and the new FDB entry in the kernel, with many
// peers.
func BenchmarkPeerChange(b *testing.B) { amongMany(b, benchmarkPeerChange) }

func benchmarkPeerChange(b *testing.B, peers int) {
	ctx, lab := newLab(b, 1, peers)
	n := lab.Nodes[0]
	start(ctx, b, n, peers, noProbes)
	entries := neighbours(b, n)
	used := rest(ctx, b, n.PID(), 0)
	began := used
	for i := 0; b.Loop(); i++ {
		p := peer(peers / 2)
		mac := dataplane.MAC{0xc6, 1, byte(i >> 16), byte(i >> 8), byte(i), 1}
		p.Attrs.BackendData = vxlanData(mac)
		if err := lab.Store.PutRaw(ctx, harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))); err != nil {
			b.Fatal(err)
		}
		await(ctx, b, entries, mac)
		b.StopTimer()
		used = rest(ctx, b, n.PID(), used)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(used-began)/float64(b.N), "cpu-ms/op")
}

// BenchmarkGatewayChange measures the same for host-gw: the public address of one peer changes,
// and with it the gateway of its route.
func BenchmarkGatewayChange(b *testing.B) { amongMany(b, benchmarkGatewayChange) }

func benchmarkGatewayChange(b *testing.B, peers int) {
	config := `{"Network":"10.0.0.0/8","Backend":{"Type":"host-gw"}}`
	ctx, lab := newLabOf(b, 1, peers, config, gatewayPeer)
	n := lab.Nodes[0]
	onSegment(b, n)
	if state := startAny(ctx, b, n, noProbes); state.Routes.Len() < peers {
		b.Fatalf("ready with %d routes of %d peers", state.Routes.Len(), peers)
	}
	updates, done := make(chan netlink.RouteUpdate, 16), make(chan struct{})
	defer close(done)
	if err := netlink.RouteSubscribeAt(netns.NsHandle(n.NamespaceFD()), updates, done); err != nil {
		b.Fatal(err)
	}
	used := rest(ctx, b, n.PID(), 0)
	began := used
	for i := 0; b.Loop(); i++ {
		p := gatewayPeer(peers / 2)
		p.Attrs.PublicIP = netip.AddrFrom4([4]byte{172, 31, byte(i >> 8), byte(i)})
		if err := lab.Store.PutRaw(ctx, harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))); err != nil {
			b.Fatal(err)
		}
		awaitRoute(ctx, b, updates, p.Attrs.PublicIP)
		b.StopTimer()
		used = rest(ctx, b, n.PID(), used)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(used-began)/float64(b.N), "cpu-ms/op")
}

// onSegment gives a node an address that puts the hosts of all peers on its segment.
func onSegment(b *testing.B, n *harness.Node) {
	b.Helper()
	handle, err := wholedump.At(netns.NsHandle(n.NamespaceFD()))
	if err != nil {
		b.Fatal(err)
	}
	defer handle.Close()
	eth0, err := handle.LinkByName("eth0")
	if err != nil {
		b.Fatal(err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(172, 30, 255, 254), Mask: net.CIDRMask(12, 32)}}
	if err := handle.AddrAdd(eth0, addr); err != nil {
		b.Fatal(err)
	}
}

// awaitRoute waits until a route has a gateway.
func awaitRoute(ctx context.Context, b *testing.B, routes <-chan netlink.RouteUpdate, via netip.Addr) {
	b.Helper()
	for {
		select {
		case r, open := <-routes:
			if !open {
				b.Fatal("the kernel stopped announcing")
			}
			if gateway, ok := netip.AddrFromSlice(r.Gw); ok && gateway.Unmap() == via {
				return
			}
		case <-ctx.Done():
			b.Fatalf("waiting for a route via %s: %v", via, ctx.Err())
		case <-time.After(10 * time.Second):
			b.Fatalf("no route via %s within 10 s", via)
		}
	}
}

// neighbours announces the changes of the neighbours and FDB entries of a node.
func neighbours(b *testing.B, n *harness.Node) <-chan netlink.NeighUpdate {
	b.Helper()
	updates, done := make(chan netlink.NeighUpdate, 16), make(chan struct{})
	b.Cleanup(func() { close(done) })
	if err := netlink.NeighSubscribeAt(netns.NsHandle(n.NamespaceFD()), updates, done); err != nil {
		b.Fatal(err)
	}
	return updates
}

// await waits until a neighbour and an FDB entry have a MAC.
func await(ctx context.Context, b *testing.B, entries <-chan netlink.NeighUpdate, mac dataplane.MAC) {
	b.Helper()
	for missing := 2; missing > 0; {
		select {
		case e, open := <-entries:
			if !open {
				b.Fatal("the kernel stopped announcing")
			}
			if string(e.HardwareAddr) == string(mac[:]) {
				missing--
			}
		case <-ctx.Done():
			b.Fatalf("waiting for %s: %v", mac, ctx.Err())
		case <-time.After(10 * time.Second):
			b.Fatalf("no neighbour and FDB entry %s within 10 s", mac)
		}
	}
}
