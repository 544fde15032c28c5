package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

// reactions are the times of a benchmark's rounds.
type reactions []time.Duration

// report reports the distribution beside the mean, which one slow round decides.
func (r reactions) report(b *testing.B) {
	if len(r) == 0 {
		return
	}
	slices.Sort(r)
	for _, q := range []struct {
		name string
		part float64
	}{{"p50-ms", 0.5}, {"p95-ms", 0.95}, {"max-ms", 1}} {
		b.ReportMetric(milliseconds(r[min(int(q.part*float64(len(r))), len(r)-1)]), q.name)
	}
}

// BenchmarkRepair deletes the overlay's device of a node while one of its pods pings a pod of another node: from the
// deletion until the next packet that passes.
func BenchmarkRepair(b *testing.B) {
	ctx, lab := newLab(b, 2, 0)
	var pods []*harness.Pod
	for _, n := range lab.Nodes {
		boot(ctx, b, n, noProbes)
		pod, err := n.AddPod(ctx)
		if err != nil {
			b.Fatal(err)
		}
		pods = append(pods, pod)
	}
	passes := func() bool {
		_, err := pods[0].Ping(ctx, pods[1].Addr(cidr.V4), harness.PingOptions{Timeout: 2 * time.Millisecond})
		return err == nil
	}
	until(ctx, b, "the first packet", passes)
	var times reactions
	rest(ctx, b, lab.Nodes[0].PID(), 0)
	for b.Loop() {
		began := time.Now()
		if err := lab.Nodes[0].DeleteLink(device); err != nil {
			b.Fatal(err)
		}
		for !passes() {
			if time.Since(began) > 10*time.Second {
				b.Fatalf("no packet passes 10 s after the deletion:\n%s", lab.Nodes[0].LogTail(20))
			}
		}
		times = append(times, time.Since(began))
		b.StopTimer()
		restart(ctx, b, lab.Nodes[0]) // a daemon whose repair is undone again and again would pause
		rest(ctx, b, lab.Nodes[0].PID(), 0)
		b.StartTimer()
	}
	times.report(b)
}

// restart ends a node's daemon and starts another one.
func restart(ctx context.Context, b *testing.B, n *harness.Node) {
	b.Helper()
	if err := n.Stop(ctx); err != nil {
		b.Fatal(err)
	}
	boot(ctx, b, n, noProbes)
}
