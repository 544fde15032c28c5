package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/gotestsum/testjson"
)

var update = flag.Bool("update", false, "write the golden file instead of comparing with it")

// TestSummary checks the summary of a recorded run. It has a failed subtest, scenarios of
// two worlds of which one was skipped, a ginkgo suite, another whose set-up failed, a
// package without tests and one that does not compile.
func TestSummary(t *testing.T) {
	const golden = "testdata/summary.txt"
	events, err := os.Open("testdata/events.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: events})
	if err != nil {
		t.Fatal(err)
	}

	sum := summarise(execution, []string{"race detector: on"})
	sum.Elapsed = 0
	var got bytes.Buffer
	sum.write(&got)

	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestRunStatus(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want int
	}{
		{"no such package", []string{"./testdata"}, 1},
		{"no test matches", []string{"-run", "^NoSuchTest$", "."}, 0},
		{"bad flag", []string{"-p", "two"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := run(t.Context(), &out, options{}, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("status %d, want %d; output:\n%s", got, tt.want, &out)
			}
		})
	}
}

func TestShortened(t *testing.T) {
	names := []string{"TestScenarios/vm/a", "TestScenarios/vm/b", "TestScenarios/netns/b", "TestLab", "TestScenarios/vm/c"}
	want := []string{"TestScenarios/vm/a", "b", "TestScenarios/netns/b", "TestLab", "TestScenarios/vm/c"}
	if diff := cmp.Diff(want, shortened(names)); diff != "" {
		t.Errorf("shortened (-want +got):\n%s", diff)
	}
}
