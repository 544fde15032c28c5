package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"gotest.tools/gotestsum/testjson"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

// result is one test without subtests, or one spec of a ginkgo suite.
type result struct {
	outcome.Outcome
	Pkg    string   // relative to the module
	Test   string   // the test that ran it: the suite's, if it is a spec
	Output []string // its end, or that of its suite; only of a failure
}

// test is a test of a package; all specs of a suite belong to one.
type test struct{ pkg, name string }

func (r result) test() test { return test{r.Pkg, r.Test} }

// resultsOf lists the results of a package, in the order in which the tests
// ended.
func resultsOf(pkg *testjson.Package) []result {
	parents := parentsOf(pkg.TestCases())
	var results []result
	add := func(state string, tests []testjson.TestCase, toldBySubtests map[string]bool) {
		for _, test := range tests {
			if !toldBySubtests[test.Test.Name()] {
				results = append(results, expand(state, test, pkg)...)
			}
		}
	}
	add(outcome.Passed, pkg.Passed, parents)
	add(outcome.Failed, pkg.Failed, parentsOf(pkg.Failed)) // a test may fail although all its subtests pass
	add(outcome.Skipped, pkg.Skipped, parents)
	return results
}

func parentsOf(tests []testjson.TestCase) map[string]bool {
	parents := map[string]bool{}
	for _, test := range tests {
		name := test.Test.Name()
		for i := strings.LastIndexByte(name, '/'); i >= 0; i = strings.LastIndexByte(name, '/') {
			name = name[:i]
			parents[name] = true
		}
	}
	return parents
}

// expand returns the specs of a suite, or the test itself. A failure of a suite
// outside its specs, for example in its set-up, is a result of its own.
func expand(state string, test testjson.TestCase, pkg *testjson.Package) []result {
	name := testjson.RelativePackagePath(test.Package)
	var specs []result
	failed := false
	for _, key := range slices.Sorted(maps.Keys(test.Attributes)) {
		if o, ok := outcome.Decode(key, test.Attributes[key]); ok {
			spec := result{Outcome: o, Pkg: name, Test: test.Test.Name()}
			if o.State == outcome.Failed {
				spec.Output, failed = end(pkg.OutputLines(test)), true
			}
			specs = append(specs, spec)
		}
	}
	if len(specs) > 0 && (state != outcome.Failed || failed) {
		return specs
	}
	self := result{Outcome: outcome.Outcome{State: state, Name: test.Test.Name()}, Pkg: name, Test: test.Test.Name()}
	switch state {
	case outcome.Skipped:
		self.Reason = skipReason(pkg.OutputLines(test))
	case outcome.Failed:
		self.Output = end(pkg.OutputLines(test))
	}
	return append(specs, self)
}

// end returns the last lines, as many as fit a screen.
func end(output []string) []string { return output[max(0, len(output)-40):] }

// logLine matches the place that t.Log and t.Skip put before their text.
var logLine = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// continued begins the further lines of a text that t.Log or t.Skip prints.
const continued = "        "

// skipReason returns the last text that the test logged, in one line: a test
// ends with its t.Skip.
func skipReason(output []string) string {
	reason := "no reason given"
	logged := false
	for _, line := range output {
		place := logLine.FindString(line)
		switch {
		case place != "":
			reason, logged = strings.TrimSpace(line[len(place):]), true
		case logged && strings.HasPrefix(line, continued):
			reason += " " + strings.TrimSpace(line)
		default:
			logged = false
		}
	}
	return reason
}
