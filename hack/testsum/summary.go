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
	Broken   []broken // failed outside of their tests: not compiled, or died
	Results  []result
}

// broken is a package without results.
type broken struct {
	Pkg    string
	Output []string // its end
}

func summarise(execution *testjson.Execution, notes []string) *summary {
	s := &summary{Notes: notes, Elapsed: execution.Elapsed()}
	for _, path := range execution.Packages() {
		pkg, name := execution.Package(path), testjson.RelativePackagePath(path)
		results := resultsOf(pkg)
		switch {
		case pkg.Result() == testjson.ActionFail && len(pkg.Failed) == 0:
			s.Broken = append(s.Broken, broken{name, end(pkg.OutputLines(testjson.TestCase{}))})
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
	for _, note := range s.Notes {
		if !slices.Contains(earlier.Notes, note) {
			earlier.Notes = append(earlier.Notes, note)
		}
	}
	s.Notes = earlier.Notes
	s.Elapsed += earlier.Elapsed
	s.Packages = union(earlier.Packages, s.Packages)
	s.Untested = union(earlier.Untested, s.Untested)
	s.Broken = append(earlier.Broken, s.Broken...)
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
	s.writeSkipped(out)
	s.writeUnreal(out)
	s.writeBroken(out)
	s.writeFailed(out)
	total := s.total()
	total.failed += len(s.lost())
	fmt.Fprintf(out, "\n%v\n", total)
}

// writeSkipped names the tests that were skipped, those with the same reason in one line,
// and counts those that another command runs.
func (s *summary) writeSkipped(out io.Writer) {
	var reasons []string
	tests := map[string][]string{}
	for _, r := range s.Results {
		if r.State != outcome.Skipped {
			continue
		}
		reason := r.Pkg + ", " + r.Reason
		if tests[reason] == nil {
			reasons = append(reasons, reason)
		}
		tests[reason] = append(tests[reason], r.Name)
	}
	if len(reasons) > 0 {
		fmt.Fprintln(out, "\nSkipped, and why:")
	}
	for _, reason := range reasons {
		fmt.Fprintf(out, "  %s (%d)", reason, len(tests[reason]))
		if !strings.HasSuffix(reason, outcome.ForTestAll) {
			fmt.Fprintf(out, ": %s", strings.Join(shortened(tests[reason]), ", "))
		}
		fmt.Fprintln(out)
	}
}

// shortened removes the suites and worlds that each name shares with the one before it.
func shortened(names []string) []string {
	var short []string
	before := ""
	for _, name := range names {
		parent := name[:strings.LastIndexByte(name, '/')+1]
		short = append(short, strings.TrimPrefix(name, before))
		before = parent
	}
	return short
}

// writeBroken names the packages without results, with the end of what they printed.
func (s *summary) writeBroken(out io.Writer) {
	for _, b := range s.Broken {
		fmt.Fprintf(out, "\nDid not compile, or died outside of a test: %s\n%s", b.Pkg, indented(b.Output))
	}
}

// writeFailed names the failed tests. It comes last, since many readers see only the end
// of a log.
func (s *summary) writeFailed(out io.Writer) {
	for _, r := range s.Results {
		if r.State == outcome.Failed {
			fmt.Fprintf(out, "\nFailed: %s %s; its whole output is above, and ends with\n%s", r.Pkg, r.Name, indented(r.Output))
		}
	}
}

func indented(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "    %s\n", strings.TrimRight(line, "\n"))
	}
	return text.String()
}
