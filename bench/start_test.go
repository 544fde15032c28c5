package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
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
			n := lab.Nodes[0]
			var cpu time.Duration
			var memory int64
			logged := len(n.Log())
			for b.Loop() {
				start(ctx, b, n, peers, objects)
				b.StopTimer()
				cpu += cpuTime(b, n.PID())
				memory = max(memory, peakMemory(b, n.PID()))
				forget(ctx, b, lab, n)
				b.StartTimer()
			}
			b.ReportMetric(milliseconds(cpu)/float64(b.N), "cpu-ms/op")
			b.ReportMetric(megabytes(memory), "peak-MB")
			b.ReportMetric(float64(len(n.Log())-logged)/float64(b.N), "log-B/op")
		})
	}
}

// forget ends a node's daemon and removes all its traces.
func forget(ctx context.Context, b *testing.B, lab *harness.Lab, n *harness.Node) {
	b.Helper()
	env, err := n.SubnetEnv()
	err = errors.Join(err, n.Stop(ctx), n.DeleteLink(device),
		lab.Store.DeleteKey(ctx, harness.SubnetKey(fmt.Sprintf("%s-24", env.Subnet[cidr.V4].Masked().Addr()))))
	for _, file := range []string{n.SubnetFile(), n.StateFile()} {
		if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
}
