package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/harness"
)

// BenchmarkStart measures a daemon on a host without any state, from the start
// of its process until it is ready, which means that the kernel has a route, a
// neighbour and an FDB entry for every peer: with routes that have a gateway of their own,
// and with next-hop objects.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct{ peers, objectsFrom int }{
		{1000, 0}, {1000, 1}, {2000, 0}, {2000, 1}, {5000, 0}, {5000, 1}, {20_000, 0}, {20_000, 1},
	} {
		peers, objects := c.peers, fmt.Sprintf("--next-hop-objects=%d", c.objectsFrom)
		b.Run(fmt.Sprintf("peers=%d/objects=%t", peers, c.objectsFrom > 0), func(b *testing.B) {
			ctx, lab := newLab(b, 1, peers)
			measureStart(ctx, b, lab, func() { start(ctx, b, lab.Nodes[0], peers, objects) })
		})
	}
}

// measureStart measures the start of a daemon on the only node of a lab, from nothing, and its log.
func measureStart(ctx context.Context, b *testing.B, lab *harness.Lab, start func()) {
	b.Helper()
	n := lab.Nodes[0]
	var cpu time.Duration
	var memory int64
	logged := len(n.Log())
	for b.Loop() {
		start()
		b.StopTimer()
		cpu += cpuTime(b, n.PID())
		memory = max(memory, peakMemory(b, n.PID()))
		forget(ctx, b, lab, n)
		b.StartTimer()
	}
	b.ReportMetric(milliseconds(cpu)/float64(b.N), "cpu-ms/op")
	b.ReportMetric(megabytes(memory), "peak-MB")
	b.ReportMetric(float64(len(n.Log())-logged)/float64(b.N), "log-B/op")
}

// BenchmarkStartUpstream measures upstream's own daemon beside it, until the kernel has a route to every peer, which
// upstream adds after the peer's neighbour and FDB entry. It needs make bin/upstream-flanneld.
func BenchmarkStartUpstream(b *testing.B) {
	program := os.Getenv(harness.UpstreamEnv)
	if program == "" {
		b.Skipf("%s names no program", harness.UpstreamEnv)
	}
	for _, peers := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("peers=%d", peers), func(b *testing.B) {
			ctx, lab := newLab(b, 1, peers)
			n, last := lab.Nodes[0], lastPeer(peers)
			measureStart(ctx, b, lab, func() {
				if err := n.StartUpstream(ctx, program); err != nil {
					b.Fatal(err)
				}
				until(ctx, b, "the route to the last peer", func() bool { return hasRoute(b, n, last) })
				state, err := n.State(ctx, extent)
				if err != nil || state.Routes.Len() < peers {
					b.Fatalf("%d routes of %d peers: %v", state.Routes.Len(), peers, err)
				}
			})
		})
	}
}

// lastPeer is the subnet of the peer whose key comes last in the datastore. Upstream adds the peers in the order of
// their keys.
func lastPeer(peers int) netip.Prefix {
	var last lease.Key
	for i := range peers {
		if k := peer(i).Key; k.String() > last.String() {
			last = k
		}
	}
	return last.V4
}

// hasRoute asks a node's kernel for its way to a subnet, which costs it less than reading all routes.
func hasRoute(b *testing.B, n *harness.Node, subnet netip.Prefix) bool {
	b.Helper()
	var routes []netlink.Route
	err := n.Do(func() (err error) {
		routes, err = netlink.RouteGet(subnet.Addr().AsSlice())
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return len(routes) > 0 && len(routes[0].Gw) > 0 && subnet.Contains(netip.AddrFrom4([4]byte(routes[0].Gw.To4())))
}

// forget ends a node's daemon and removes all its traces.
func forget(ctx context.Context, b *testing.B, lab *harness.Lab, n *harness.Node) {
	b.Helper()
	forgetDevice(ctx, b, lab, n, device)
}

// forgetDevice is forget for a backend with another device, or with none.
func forgetDevice(ctx context.Context, b *testing.B, lab *harness.Lab, n *harness.Node, device string) {
	b.Helper()
	env, err := n.SubnetEnv()
	err = errors.Join(err, n.Stop(ctx),
		lab.Store.DeleteKey(ctx, harness.SubnetKey(fmt.Sprintf("%s-24", env.Subnet[cidr.V4].Masked().Addr()))))
	if device != "" {
		err = errors.Join(err, n.DeleteLink(device))
	}
	for _, file := range []string{n.SubnetFile(), n.StateFile()} {
		if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}
