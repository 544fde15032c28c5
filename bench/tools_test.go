package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/harness"
)

// toolCluster is the number of peers of the daemon that the operators' tools ask.
const toolCluster = 5000

// BenchmarkTools runs the programs of operators beside a daemon with 5,000 peers, which do not
// answer its probes: whole processes of flannelctl, and scrapes of the metrics.
func BenchmarkTools(b *testing.B) {
	ctx, lab := newLab(b, 1, toolCluster)
	n := lab.Nodes[0]
	start(ctx, b, n, toolCluster)
	tool, err := harness.BuildTool(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for _, command := range []string{"status", "peers"} {
		b.Run(command, func(b *testing.B) {
			var m measured
			before := cpuTime(b, n.PID())
			for b.Loop() {
				m.run(ctx, b, tool, command, "--subnet-file="+n.SubnetFile())
			}
			b.ReportMetric(milliseconds(m.cpu)/float64(b.N), "cpu-ms/op")
			b.ReportMetric(megabytes(m.memory), "peak-MB")
			b.ReportMetric(megabytes(m.own), "own-MB")
			b.ReportMetric(milliseconds(cpuTime(b, n.PID())-before)/float64(b.N), "daemon-cpu-ms/op")
		})
	}
	b.Run("scrape", func(b *testing.B) {
		before, size := cpuTime(b, n.PID()), 0
		for b.Loop() {
			code, page, err := n.Get(ctx, "/metrics")
			if err != nil || code != 200 || !strings.Contains(page, "flannel_peers{") {
				b.Fatalf("%d %v", code, err)
			}
			size = len(page)
		}
		b.ReportMetric(milliseconds(cpuTime(b, n.PID())-before)/float64(b.N), "daemon-cpu-ms/op")
		b.ReportMetric(float64(size), "page-B")
	})
}

// measured sums up the work of processes.
type measured struct {
	cpu    time.Duration
	memory int64 // the largest peak, with the pages of the program file
	own    int64 // the largest without them
}

// run runs a program to its end. It may end with status 1: it found trouble.
func (m *measured) run(ctx context.Context, b *testing.B, program string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-tick.C:
			m.memory = max(m.memory, resident(cmd.Process.Pid, "VmHWM:"))
			m.own = max(m.own, resident(cmd.Process.Pid, "RssAnon:"))
			continue
		case err := <-done:
			tick.Stop()
			if code := cmd.ProcessState.ExitCode(); code > 1 {
				b.Fatalf("%s: %v", program, err)
			}
		}
		break
	}
	m.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// resident returns a figure of a process's memory in bytes, as the kernel calls it; 0: the
// process has ended.
func resident(pid int, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	var kilobytes int64
	_, rest, _ := strings.Cut(string(text), name)
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes << 10
}

// BenchmarkWatching compares a daemon that probes 5,000 silent peers and serves metrics with
// one that does neither, over half a minute each: the CPU time it uses, and its memory with and
// without the pages of the program file.
func BenchmarkWatching(b *testing.B) {
	const warm, period = 10 * time.Second, 30 * time.Second
	pass := func(ctx context.Context, d time.Duration) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-ctx.Done()
	}
	for name, args := range map[string][]string{"on": nil, "off": {noProbes, "--metrics=false"}} {
		b.Run(name, func(b *testing.B) {
			ctx, lab := newLab(b, 1, toolCluster)
			n := lab.Nodes[0]
			start(ctx, b, n, toolCluster, args...)
			pass(ctx, warm)
			before := cpuTime(b, n.PID())
			for b.Loop() {
				pass(ctx, period)
			}
			used := cpuTime(b, n.PID()) - before
			b.ReportMetric(100*used.Seconds()/b.Elapsed().Seconds(), "cpu-%")
			b.ReportMetric(megabytes(peakMemory(b, n.PID())), "peak-MB")
			b.ReportMetric(megabytes(resident(n.PID(), "RssAnon:")), "own-MB")
		})
	}
}
