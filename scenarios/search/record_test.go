package search

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flanneld/flannel/internal/page"
)

// TestRecordIsTheRun checks that the page of a seed tells the seed's own run, and
// its failure.
func TestRecordIsTheRun(t *testing.T) {
	p := Draw(7, Options{})
	r, rec := Run(p), Record(p, page.About{})
	if want := fmt.Sprintf("%016x", r.Trace); rec.About.Trace != want || !rec.OK || r.Failed != "" {
		t.Errorf("recorded: ok=%t, trace %s; run: %q, trace %s", rec.OK, rec.About.Trace, r.Failed, want)
	}
	p.Steps = append(p.Steps, Step{Line: "wait n1 log=never-said within=1s"})
	rec = Record(p, page.About{})
	if summary := strings.Join(rec.Summary, " "); rec.OK || !strings.Contains(summary, "never-said logged 0 times") {
		t.Errorf("ok=%t: %s", rec.OK, summary)
	}
	if rec.About.Seed != "7" {
		t.Errorf("seed %q, want 7", rec.About.Seed)
	}
}
