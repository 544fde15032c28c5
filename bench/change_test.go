package bench

import (
	"context"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/harness"
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
