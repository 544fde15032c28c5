package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/lang"
	"github.com/flanneld/flannel/scenarios/simworld"
)

// mostBytes is the largest size of a page.
const mostBytes = 2_000_000

const healthy = `
topology nodes=3
----
ok

start all
----
ok

settle
----
ok

fault n2 link flannel.1 down-up
----
ok

settle
----
ok

ping all
----
all ok src=preserved
`

// planted fails: the scenario expects a host whose neighbours were flushed to
// reach others at once.
const planted = `
topology nodes=20 segments=2
----
ok

start all
----
ok

settle within=60s
----
ok

fault n12 isolate
----
ok

pass 5s
----
ok

fault n7 flush neigh flannel.1
----
ok

ping n7.pod n13.pod
----
ok src=preserved
`

// play runs a scenario and returns its recording. It ends at the first step
// that goes wrong, as a scenario does.
func play(t *testing.T, name, text string) page.Recording {
	t.Helper()
	s := lang.NewSession("sim", func(top lang.Topology) (lang.World, error) { return simworld.New(top, 1) })
	s.Record(nil)
	failed := false
	datadriven.RunTestFromString(t, text, func(_ *testing.T, d *datadriven.TestData) string {
		if !failed {
			failed = s.Run(d) != d.Expected
		}
		return d.Expected
	})
	rec := s.Recording(page.About{Scenario: name, Commit: "abc1234",
		Replay: "make scenario NAME=" + name + " WORLD=sim SEED=1"}, "")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return rec
}

// write writes a page where a browser can open it.
func write(t *testing.T, rec page.Recording) (path string) {
	t.Helper()
	var text bytes.Buffer
	if err := page.Write(&text, rec); err != nil {
		t.Fatal(err)
	}
	if text.Len() > mostBytes {
		t.Errorf("the page has %d bytes, more than %d", text.Len(), mostBytes)
	}
	path = filepath.Join(os.Getenv("PAGES"), rec.About.Scenario+".html")
	if os.Getenv("PAGES") == "" {
		path = filepath.Join(t.TempDir(), "report.html")
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSummarySaysWhatWentWrong(t *testing.T) {
	rec := play(t, "planted", planted)
	summary := strings.Join(rec.Summary, "\n")
	if rec.OK {
		t.Error("a run that failed counts as one that passed")
	}
	for _, want := range []string{
		"Step 7 of 7, `ping n7.pod n13.pod`, went wrong",
		"it should have answered `ok src=preserved`, but answered `lost`",
		"A packet from the pod on n7 to the pod on n13 was lost at n7: " +
			"the tunnel device knows no neighbour for the next hop (`neigh_missing",
		"n7 was 19 changes short of what the leases demand, the first: `missing neigh ",
		"; it took itself for ready",
		"The last thing done to the world before was `fault n7 flush neigh flannel.1`",
	} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, summary)
		}
	}
	if rec.FocusOn != "n7" {
		t.Errorf("the page begins with node %q, want n7", rec.FocusOn)
	}
}

func TestSummaryOfARunThatPassed(t *testing.T) {
	rec := play(t, "healthy", healthy)
	summary := strings.Join(rec.Summary, "\n")
	for _, want := range []string{
		"All went right: 3 nodes with vxlan on 1 segment did what the scenario demands in each of its 6 steps",
		"1 fault was put in on purpose: `fault n2 link flannel.1 down-up`.",
		"Of 6 packets between pods none was lost.",
		"At the end 3 of 3 nodes were ready.",
	} {
		if !rec.OK || !strings.Contains(summary, want) {
			t.Errorf("ok=%t, and the summary lacks %q:\n%s", rec.OK, want, summary)
		}
	}
}

// TestWitnessLeavesNoTrace checks that a recorded run equals one without a record.
func TestWitnessLeavesNoTrace(t *testing.T) {
	run := func(record bool) string {
		s := lang.NewSession("sim", func(top lang.Topology) (lang.World, error) { return simworld.New(top, 1) })
		if record {
			s.Record(nil)
		}
		datadriven.RunTestFromString(t, planted,
			func(_ *testing.T, d *datadriven.TestData) string { s.Run(d); return d.Expected })
		if record {
			return s.Recording(page.About{}, "").About.Trace
		}
		_, hash, _ := strings.Cut(s.World().Logs(), "trace ")
		return hash[:16]
	}
	if plain, recorded := run(false), run(true); plain != recorded {
		t.Errorf("trace %s, when recorded %s", plain, recorded)
	}
}
