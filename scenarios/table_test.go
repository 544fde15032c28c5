package scenarios

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flanneld/flannel/scenarios/lang"
)

// table says how each replay went as soon as it is over. Real worlds run at
// the same time, so their lines are in the order in which they end.
type table struct {
	mu              sync.Mutex
	out             io.Writer
	started         time.Time
	ok, failed, not int
	skippedBlocks   []string
	ranIn           map[string][]string // worlds, by scenario; none where it was skipped
	elsewhere       map[string]bool     // scenarios that make test-vm or make test-all plays
}

func newTable(out io.Writer) *table {
	return &table{out: out, started: time.Now(), ranIn: map[string][]string{}, elsewhere: map[string]bool{}}
}

const rowFormat = "%-32s %-6s %-8s %8s %10s %8s\n"

func (r *table) add(t *testing.T, s *lang.Session, scenario string, wall time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ok+r.failed+r.not == 0 {
		fmt.Fprintf(r.out, rowFormat, "scenario", "world", "result", "took", "virtual", "skipped")
	}
	result := "ok"
	worlds := r.ranIn[scenario]
	if !t.Skipped() && s.Performed > 1 { // more than the topology
		worlds = append(worlds, s.WorldName)
	}
	r.ranIn[scenario] = worlds
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
	if w, ok := s.World().(lang.VirtualClock); ok {
		virtual = w.Elapsed().Round(100 * time.Millisecond).String()
	}
	blocks := "-"
	if n := len(s.Skipped); n > 0 {
		blocks = fmt.Sprintf("%d", n)
		r.skippedBlocks = append(r.skippedBlocks, s.Skipped...)
	}
	fmt.Fprintf(r.out, rowFormat, scenario, s.WorldName, result, wall.Round(10*time.Millisecond), virtual, blocks)
}

// total prints the sums, in which worlds each scenario ran, and fails the test
// for scenarios that ran in no world.
func (r *table) total(t *testing.T, worlds []string) {
	if len(r.skippedBlocks) > 0 {
		fmt.Fprintf(r.out, "\nblocks for another world:\n  %s\n", strings.Join(r.skippedBlocks, "\n  "))
	}
	fmt.Fprintf(r.out, "\nscenarios: %d ok, %d failed, %d skipped in %s\n",
		r.ok, r.failed, r.not, time.Since(r.started).Round(100*time.Millisecond))
	nowhere := r.tell(worlds)
	nowhere = slices.DeleteFunc(nowhere, func(scenario string) bool { return r.elsewhere[scenario] })
	if len(worlds) > 1 && len(nowhere) > 0 {
		t.Errorf("%d scenarios ran in no world; give each a world that has what it requires", len(nowhere))
	}
}

// tell prints in which worlds the scenarios ran, and returns those that ran in none.
func (r *table) tell(worlds []string) (nowhere []string) {
	byWorlds := map[string][]string{}
	for _, scenario := range slices.Sorted(maps.Keys(r.ranIn)) {
		where := strings.Join(slices.Sorted(slices.Values(r.ranIn[scenario])), " and ")
		byWorlds[where] = append(byWorlds[where], scenario)
	}
	for _, where := range slices.Sorted(maps.Keys(byWorlds)) {
		names := byWorlds[where]
		switch {
		case where == "":
			fmt.Fprintf(r.out, "ran in no world of %s: %s\n", strings.Join(worlds, ", "), strings.Join(names, ", "))
		case where == allWorlds || len(worlds) == 1:
			fmt.Fprintf(r.out, "ran in %s: %d scenarios\n", where, len(names))
		default:
			fmt.Fprintf(r.out, "ran in %s alone: %d scenarios: %s\n", where, len(names), strings.Join(names, ", "))
		}
	}
	return byWorlds[""]
}

// allWorlds is the summary's name for both worlds.
const allWorlds = "netns and sim"

func TestSummaryNamesScenariosThatRanNowhere(t *testing.T) {
	var out strings.Builder
	r := newTable(&out)
	r.ranIn = map[string][]string{"lost": nil, "virtual": {"sim"}, "real": {"sim", "netns"}}
	if nowhere := r.tell([]string{"sim", "netns"}); !slices.Equal(nowhere, []string{"lost"}) {
		t.Errorf("ran nowhere: %q, want lost", nowhere)
	}
	const want = "ran in no world of sim, netns: lost\n" +
		"ran in netns and sim: 1 scenarios\nran in sim alone: 1 scenarios: virtual\n"
	if out.String() != want {
		t.Errorf("summary:\n%swant:\n%s", &out, want)
	}
}
