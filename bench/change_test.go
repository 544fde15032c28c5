package bench

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

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
	var times reactions
	for i := 0; b.Loop(); i++ {
		p := peer(peers / 2)
		mac := dataplane.MAC{0xc6, 1, byte(i >> 16), byte(i >> 8), byte(i), 1}
		p.Attrs.BackendData = vxlanData(mac)
		put := time.Now()
		if err := lab.Store.PutRaw(ctx, harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))); err != nil {
			b.Fatal(err)
		}
		await(ctx, b, entries, mac)
		times = append(times, time.Since(put))
		b.StopTimer()
		used = rest(ctx, b, n.PID(), used)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(used-began)/float64(b.N), "cpu-ms/op")
	times.report(b)
}

// BenchmarkGatewayChange measures the same for host-gw: the public address of one peer changes,
// and with it the gateway of its route.
func BenchmarkGatewayChange(b *testing.B) { amongMany(b, benchmarkGatewayChange) }

func benchmarkGatewayChange(b *testing.B, peers int) {
	ctx, lab := newLabOf(b, 1, peers, gatewayNetwork, gatewayPeer)
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
	awaitUpdate(ctx, b, routes, "a route via "+via.String(), func(r netlink.RouteUpdate) bool {
		gateway, ok := netip.AddrFromSlice(r.Gw)
		return ok && gateway.Unmap() == via
	})
}

// awaitKind waits until the kernel announces that a route to a subnet is new, or gone.
func awaitKind(
	ctx context.Context, b *testing.B, routes <-chan netlink.RouteUpdate, kind uint16, to netip.Prefix,
) {
	b.Helper()
	awaitUpdate(ctx, b, routes, "news of the route to "+to.String(), func(r netlink.RouteUpdate) bool {
		return r.Type == kind && r.Dst != nil && r.Dst.String() == to.String()
	})
}

func awaitUpdate(
	ctx context.Context, b *testing.B, routes <-chan netlink.RouteUpdate, what string,
	wanted func(netlink.RouteUpdate) bool,
) {
	b.Helper()
	for {
		select {
		case r, open := <-routes:
			if !open {
				b.Fatal("the kernel stopped announcing")
			}
			if wanted(r) {
				return
			}
		case <-ctx.Done():
			b.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(10 * time.Second):
			b.Fatalf("no %s within 10 s", what)
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

// BenchmarkPeerLeaves measures a vxlan peer that leaves, and the same peer when it comes back:
// the CPU time of the daemon for each, and the time until the kernel announces the route.
func BenchmarkPeerLeaves(b *testing.B) {
	amongMany(b, func(b *testing.B, peers int) { benchmarkPeerLeaves(b, peers, network, peer) })
}

// BenchmarkGatewayLeaves measures the same for host-gw.
func BenchmarkGatewayLeaves(b *testing.B) {
	amongMany(b, func(b *testing.B, peers int) { benchmarkPeerLeaves(b, peers, gatewayNetwork, gatewayPeer) })
}

func benchmarkPeerLeaves(b *testing.B, peers int, config string, record func(int) lease.Lease) {
	ctx, lab := newLabOf(b, 1, peers, config, record)
	n := lab.Nodes[0]
	onSegment(b, n)
	startAny(ctx, b, n, noProbes)
	updates, done := make(chan netlink.RouteUpdate, 16), make(chan struct{})
	defer close(done)
	if err := netlink.RouteSubscribeAt(netns.NsHandle(n.NamespaceFD()), updates, done); err != nil {
		b.Fatal(err)
	}
	p := record(peers / 2)
	key, value := harness.SubnetKey(p.Key.String()), string(lease.EncodeAttrs(p.Attrs))
	used := rest(ctx, b, n.PID(), 0)
	var left, came time.Duration
	for b.Loop() {
		before := used
		if err := lab.Store.DeleteKey(ctx, key); err != nil {
			b.Fatal(err)
		}
		awaitKind(ctx, b, updates, unix.RTM_DELROUTE, p.Key.V4)
		b.StopTimer()
		used = rest(ctx, b, n.PID(), used)
		left += used - before
		before = used
		if err := lab.Store.PutRaw(ctx, key, value); err != nil {
			b.Fatal(err)
		}
		awaitKind(ctx, b, updates, unix.RTM_NEWROUTE, p.Key.V4)
		used = rest(ctx, b, n.PID(), used)
		came += used - before
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(left)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(milliseconds(came)/float64(b.N), "return-cpu-ms/op")
}
