package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"gotest.tools/gotestsum/testjson"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

// tally counts results by how they ended.
type tally struct{ passed, failed, skipped int }

func (t *tally) add(state string) {
	switch state {
	case outcome.Passed:
		t.passed++
	case outcome.Failed:
		t.failed++
	case outcome.Skipped:
		t.skipped++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
}

// summary is what a whole run comes to.
type summary struct {
	total    tally
	packages int      // with at least one test
	untested []string // packages without any
	broken   []string // packages that failed beside their tests: not compiled, or died
	byWorld  map[string]*tally
	skips    []result
	elapsed  time.Duration
}

func summarise(execution *testjson.Execution) *summary {
	s := &summary{byWorld: map[string]*tally{}, elapsed: execution.Elapsed()}
	for _, world := range worlds {
		s.byWorld[world] = &tally{}
	}
	for _, path := range execution.Packages() {
		pkg, name := execution.Package(path), testjson.RelativePackagePath(path)
		results := resultsOf(pkg)
		switch {
		case pkg.Result() == testjson.ActionFail && len(pkg.Failed) == 0:
			s.broken = append(s.broken, name)
			s.total.failed++
		case len(results) == 0:
			s.untested = append(s.untested, name)
			continue
		}
		s.packages++
		for _, r := range results {
			s.add(r)
		}
	}
	return s
}

func (s *summary) add(r result) {
	s.total.add(r.State)
	if world := r.world(); world != "" {
		s.byWorld[world].add(r.State)
	}
	if r.State == outcome.Skipped {
		s.skips = append(s.skips, r)
	}
}

// write says what ran and what did not.
func (s *summary) write(out io.Writer, notes []string) {
	fmt.Fprintf(out, "\nWhat ran, in %s:\n", s.elapsed.Round(time.Second))
	for _, note := range notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	fmt.Fprintf(out, "  %d packages with tests; %d without\n", s.packages, len(s.untested))
	for _, world := range worlds {
		fmt.Fprintf(out, "  scenarios on %s: %v\n", world, *s.byWorld[world])
	}
	if len(s.broken) > 0 {
		fmt.Fprintf(out, "\nDid not compile, or died outside of a test: %s\n", strings.Join(s.broken, " "))
	}
	if len(s.skips) > 0 {
		fmt.Fprintln(out, "\nSkipped, and why:")
	}
	for _, r := range s.skips {
		fmt.Fprintf(out, "  %s %s: %s\n", r.pkg, r.Name, r.Reason)
	}
	fmt.Fprintf(out, "\n%v\n", s.total)
}
