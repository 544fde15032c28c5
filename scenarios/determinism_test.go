package scenarios

import (
	"os"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/scenarios/simworld"
)

// TestSeedDeterminesTheRun checks that the same seed gives the same run, and that another
// seed gives another run, in which the expectations of the file hold as well.
func TestSeedDeterminesTheRun(t *testing.T) {
	for _, file := range []string{"vxlan-dual-healed.txt", "lease-expiry-taken.txt", "twenty-nodes.txt"} {
		t.Run(scenarioName(file), func(t *testing.T) {
			first, again := traceHash(t, file, 1), traceHash(t, file, 1)
			other := traceHash(t, file, 2)
			if first != again {
				t.Errorf("two runs with seed 1 have the traces %016x and %016x", first, again)
			}
			if first == other {
				t.Errorf("seeds 1 and 2 have the same trace %016x", first)
			}
		})
	}
}

func traceHash(t *testing.T, file string, seed uint64) uint64 {
	t.Helper()
	text, err := os.ReadFile("cases/" + file)
	if err != nil {
		t.Fatal(err)
	}
	s := simSession(seed)
	defer finish(t, s)
	datadriven.RunTestFromString(t, string(text), func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
	return s.World().(*simworld.World).World.TraceHash()
}
