package main

import (
	"fmt"
	"io"
	"slices"
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

// summary holds the results of a whole run.
type summary struct {
	Notes    []string
	Elapsed  time.Duration
	Packages []string // with at least one test
	Untested []string // without any
	Broken   []string // failed outside of their tests: not compiled, or died
	Results  []result
}

func summarise(execution *testjson.Execution, notes []string) *summary {
	s := &summary{Notes: notes, Elapsed: execution.Elapsed()}
	for _, path := range execution.Packages() {
		pkg, name := execution.Package(path), testjson.RelativePackagePath(path)
		results := resultsOf(pkg)
		switch {
		case pkg.Result() == testjson.ActionFail && len(pkg.Failed) == 0:
			s.Broken = append(s.Broken, name)
		case len(results) == 0:
			s.Untested = append(s.Untested, name)
			continue
		}
		s.Packages = append(s.Packages, name)
		s.Results = append(s.Results, results...)
	}
	return s
}

// follow puts the results of an earlier run before these. A test that one of
// the two skipped and the other ran counts as it ran; one that both skipped counts once.
func (s *summary) follow(earlier *summary) {
	again, ran := s.tests(false), earlier.tests(true)
	before := slices.DeleteFunc(earlier.Results, func(r result) bool {
		return r.State == outcome.Skipped && again[r.test()]
	})
	here := s.tests(true)
	s.Results = slices.DeleteFunc(s.Results, func(r result) bool {
		return r.State == outcome.Skipped && ran[r.test()] && !here[r.test()]
	})
	s.Notes = append(earlier.Notes, s.Notes...)
	s.Elapsed += earlier.Elapsed
	s.Packages = union(earlier.Packages, s.Packages)
	s.Untested = union(earlier.Untested, s.Untested)
	s.Broken = union(earlier.Broken, s.Broken)
	s.Results = append(before, s.Results...)
}

// tests returns the tests with a result, or only those that ran.
func (s *summary) tests(ran bool) map[test]bool {
	tests := map[test]bool{}
	for _, r := range s.Results {
		if !ran || r.State != outcome.Skipped {
			tests[r.test()] = true
		}
	}
	return tests
}

// union returns the elements of a and b, each once and sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// tally counts the results that match.
func (s *summary) tally(match func(result) bool) tally {
	var t tally
	for _, r := range s.Results {
		if match(r) {
			t.add(r.State)
		}
	}
	return t
}

func (s *summary) total() tally {
	t := s.tally(func(result) bool { return true })
	t.failed += len(s.Broken)
	return t
}

// write prints the results.
func (s *summary) write(out io.Writer) {
	fmt.Fprintf(out, "\nWhat ran, in %s:\n", s.Elapsed.Round(time.Second))
	for _, note := range s.Notes {
		fmt.Fprintf(out, "  %s\n", note)
	}
	fmt.Fprintf(out, "  %d packages with tests; %d without\n", len(s.Packages), len(s.Untested))
	s.writeWorlds(out)
	if len(s.Broken) > 0 {
		fmt.Fprintf(out, "\nDid not compile, or died outside of a test: %s\n", strings.Join(s.Broken, " "))
	}
	s.list(out, outcome.Failed, "Failed; their output is above:")
	s.list(out, outcome.Skipped, "Skipped, and why:")
	s.writeUnreal(out)
	total := s.total()
	total.failed += len(s.lost())
	fmt.Fprintf(out, "\n%v\n", total)
}

// list names the results of one state, if there are any.
func (s *summary) list(out io.Writer, state, heading string) {
	for _, r := range s.Results {
		if r.State != state {
			continue
		}
		if heading != "" {
			fmt.Fprintf(out, "\n%s\n", heading)
			heading = ""
		}
		fmt.Fprintf(out, "  %s\n", strings.TrimSuffix(fmt.Sprintf("%s %s: %s", r.Pkg, r.Name, r.Reason), ": "))
	}
}
