package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/pace"
)

// cpuTime returns the CPU time, user and kernel, that a process has used with
// all its threads, including those that ended.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	const schedClock = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &t); err != nil {
		b.Fatalf("CPU clock of process %d: %v", pid, err)
	}
	return time.Duration(t.Nano())
}

// peakMemory returns the most memory that a process ever had resident, in bytes,
// with the pages of its program file. VmHWM counts the process alone; rusage
// would begin with the memory of its parent.
func peakMemory(b *testing.B, pid int) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	var kilobytes int64
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(rest), &kilobytes); err != nil {
		b.Fatalf("VmHWM of process %d: %v", pid, err)
	}
	return kilobytes << 10
}

// rest waits until a process has used CPU time beyond a mark and then used no
// more, and returns the CPU time used by then.
func rest(ctx context.Context, b *testing.B, pid int, mark time.Duration) time.Duration {
	b.Helper()
	const quiet = 700 * time.Millisecond // after that the daemon follows the next change promptly
	var (
		pass  = pace.Scale(2 * time.Millisecond)   // of CPU; less is housekeeping
		still = pace.Scale(200 * time.Microsecond) // of CPU in the quiet time
	)
	used, since := cpuTime(b, pid), time.Now()
	until(ctx, b, "the daemon to rest", func() bool {
		now := cpuTime(b, pid)
		if now-used > still || now-mark < pass {
			used = now
			since = time.Now()
		}
		return time.Since(since) >= quiet
	})
	return cpuTime(b, pid)
}

// until polls a condition. The benchmark fails when the context ends first.
func until(ctx context.Context, b *testing.B, what string, condition func() bool) {
	b.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.Fatalf("waiting for %s: %v", what, ctx.Err())
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func megabytes(n int64) float64 { return float64(n) / 1e6 }
