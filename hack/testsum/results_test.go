package main

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/gotestsum/testjson"
)

// TestAFailureOutsideOfSubtestsCounts checks that a test which fails although its subtests pass is a result, and that
// one whose subtest fails is none.
func TestAFailureOutsideOfSubtestsCounts(t *testing.T) {
	var events strings.Builder
	for _, e := range [][2]string{{"pass", "TestA/good"}, {"fail", "TestA"}, {"fail", "TestB/bad"}, {"fail", "TestB"}} {
		fmt.Fprintf(&events, `{"Action":"run","Package":"p","Test":%q}`+"\n", e[1])
		fmt.Fprintf(&events, `{"Action":%q,"Package":"p","Test":%q}`+"\n", e[0], e[1])
	}
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: strings.NewReader(events.String())})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range resultsOf(execution.Package("p")) {
		got = append(got, r.State+" "+r.Name)
	}
	if want := "passed TestA/good, failed TestA, failed TestB/bad"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

func TestSkipReason(t *testing.T) {
	for _, c := range []struct {
		what, want string
		output     []string
	}{
		{"one line", "no tun", []string{"=== RUN   TestA\n", "    a_test.go:3: no tun\n", "--- SKIP: TestA (0.00s)\n"}},
		{"two lines", "no tun on this host", []string{"    a_test.go:3: no tun\n", "        on this host\n"}},
		{"after other texts", "no chromium",
			[]string{"    b_test.go:1: step\n", "        done\n", "    a_test.go:3: no chromium\n"}},
		{"before a program's output", "no tun", []string{"    a_test.go:3: no tun\n", "udp-basic  netns  skipped\n"}},
		{"nothing", "no reason given", []string{"=== RUN   TestA\n", "--- SKIP: TestA (0.00s)\n"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := skipReason(c.output); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
