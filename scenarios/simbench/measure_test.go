package simbench

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// oneCore keeps a benchmark, its garbage collector included, to one core.
func oneCore(b *testing.B) {
	before := runtime.GOMAXPROCS(1)
	b.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// patientCollector lets garbage grow to twice the size of the live world, as long
// as both together stay below 3 GB.
func patientCollector(b *testing.B) {
	percent, limit := debug.SetGCPercent(200), debug.SetMemoryLimit(3<<30)
	b.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
}

// meter measures the cost of a span of virtual time.
type meter struct {
	wall    time.Time
	cpu     time.Duration
	virtual time.Time
	events  int
}

// measure begins a span of virtual time, which report ends.
func measure(c *cluster) meter {
	// This forgets the peak. If it fails, the peak is that of the whole process.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	return meter{wall: time.Now(), cpu: cpuTime(), virtual: c.Now(), events: c.events}
}

// report reports the cost. On a machine with other work compare the CPU time.
func (m meter) report(b *testing.B, c *cluster) {
	cpu := (cpuTime() - m.cpu).Seconds()
	b.ReportMetric(c.Now().Sub(m.virtual).Seconds()/time.Since(m.wall).Seconds(), "virtual/wall")
	b.ReportMetric(float64(c.events-m.events)/cpu, "events/cpu-s")
	b.ReportMetric(cpu, "cpu-s/op")
	b.ReportMetric(peakMB(b), "peak-MB")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMB returns the peak memory of the process.
func peakMB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	m := highWater.FindSubmatch(text)
	if err != nil || m == nil {
		b.Fatalf("no peak in /proc/self/status: %v", err)
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024
}
