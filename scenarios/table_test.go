package scenarios

import (
	"fmt"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// table says how each replay went as soon as it is over. Real worlds run at
// the same time, so their lines are in the order in which they end.
type table struct {
	mu              sync.Mutex
	out             io.Writer
	started         time.Time
	ok, failed, not int
	skippedBlocks   []string
}

func newTable(out io.Writer) *table { return &table{out: out, started: time.Now()} }

const rowFormat = "%-32s %-6s %-8s %8s %10s %8s\n"

func (r *table) add(t *testing.T, s *lang.Session, scenario string, wall time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ok+r.failed+r.not == 0 {
		fmt.Fprintf(r.out, rowFormat, "scenario", "world", "result", "took", "virtual", "skipped")
	}
	result := "ok"
	switch {
	case t.Failed():
		result = "FAILED"
		r.failed++
	case t.Skipped():
		result = "skipped"
		r.not++
	default:
		r.ok++
	}
	virtual := "-"
	if w, ok := s.World().(*simworld.World); ok {
		virtual = w.Elapsed().Round(100 * time.Millisecond).String()
	}
	blocks := "-"
	if n := len(s.Skipped); n > 0 {
		blocks = fmt.Sprintf("%d", n)
		r.skippedBlocks = append(r.skippedBlocks, s.Skipped...)
	}
	fmt.Fprintf(r.out, rowFormat, scenario, s.WorldName, result, wall.Round(10*time.Millisecond), virtual, blocks)
}

func (r *table) total() {
	if len(r.skippedBlocks) > 0 {
		fmt.Fprintf(r.out, "\nblocks for another world:\n  %s\n", strings.Join(r.skippedBlocks, "\n  "))
	}
	fmt.Fprintf(r.out, "\nscenarios: %d ok, %d failed, %d skipped in %s\n",
		r.ok, r.failed, r.not, time.Since(r.started).Round(100*time.Millisecond))
}
