package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

func aResult(state, pkg, name string) result {
	return result{Outcome: outcome.Outcome{State: state, Name: name}, Pkg: pkg, Test: name}
}

// TestRunsCloseWithOneSummary checks the summary of two runs. The first skips a suite for
// lack of a program, which the second has.
func TestRunsCloseWithOneSummary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	ran := func(state, test, name string) result {
		return result{Outcome: outcome.Outcome{State: state, Name: name}, Pkg: "harness/kubelab", Test: test}
	}
	notes := []string{"with the race detector"}
	first := &summary{Notes: notes, Packages: []string{"core", "harness/kubelab"}, Broken: []broken{{Pkg: "bench"}}}
	first.Results = []result{
		ran(outcome.Passed, "TestA", "TestA"),
		ran(outcome.Failed, "TestB", "TestB"),
		ran(outcome.Skipped, "TestC", "TestC"),
		ran(outcome.Skipped, "TestKubelab", "TestKubelab"),
	}
	second := &summary{Notes: notes, Packages: []string{"harness/kubelab"}, Results: []result{
		ran(outcome.Passed, "TestKubelab", "a node joins"),
		ran(outcome.Passed, "TestKubelab", "a node leaves"),
		ran(outcome.Skipped, "TestKubelab", "udp"),
	}}
	var got bytes.Buffer
	if err := first.close(&got, options{results: file, more: true}); err != nil || got.Len() > 0 {
		t.Fatalf("the first of two runs: %v, and it says\n%s", err, &got)
	}
	if err := second.close(&got, options{results: file}); err != nil {
		t.Fatal(err)
	}
	if want := "\n\n3 passed, 2 failed, 2 skipped\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("the end is not %q:\n%s", want, &got)
	}
	if n := strings.Count(got.String(), notes[0]); n != 1 {
		t.Errorf("a note of both runs is there %d times:\n%s", n, &got)
	}
	if want := "2 packages with tests"; !strings.Contains(got.String(), want) {
		t.Errorf("no %q in\n%s", want, &got)
	}
}

// TestARunThatSkipsCountsNothingAfterOneThatRan checks that a test which one run skipped
// and another ran counts as it ran, in whatever order parallel runs end.
func TestARunThatSkipsCountsNothingAfterOneThatRan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	run := func(state string) *summary {
		return &summary{Packages: []string{"drivers/linux"}, Results: []result{
			aResult(state, "drivers/linux", "TestConformance/ipip"),
		}}
	}
	var got bytes.Buffer
	for _, s := range []*summary{run(outcome.Passed), run(outcome.Skipped)} {
		got.Reset()
		if err := s.close(&got, options{results: file}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "\n\n1 passed, 0 failed, 0 skipped\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("the end is not %q:\n%s", want, &got)
	}
}

// TestRunsMayEndTogether checks that each of many runs finds the results of the others,
// whenever they end.
func TestRunsMayEndTogether(t *testing.T) {
	const runs = 20
	file := filepath.Join(t.TempDir(), "results")
	var group sync.WaitGroup
	for i := range runs {
		group.Go(func() {
			name := fmt.Sprintf("Test%d", i)
			s := &summary{Results: []result{aResult(outcome.Passed, "core", name)}}
			if err := s.close(io.Discard, options{results: file, more: true}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	sum, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum.total().passed; got != runs {
		t.Errorf("%d of %d runs are counted", got, runs)
	}
}

// TestJoin checks that a run which was repeated counts once, with the results of its last try.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	o := options{results: filepath.Join(dir, "results"), join: filepath.Join(dir, "last try")}
	run := func(state, name string) *summary {
		return &summary{Results: []result{aResult(state, "scenarios", name)}}
	}
	files := map[string]*summary{o.results: run(outcome.Passed, "TestA"), o.join: run(outcome.Failed, "TestB")}
	for file, s := range files {
		if err := s.save(file); err != nil {
			t.Fatal(err)
		}
	}
	var got bytes.Buffer
	if _, err := join(&got, o); err != nil {
		t.Fatal(err)
	}
	if want := "\n\n1 passed, 1 failed, 0 skipped\n"; !strings.HasSuffix(got.String(), want) {
		t.Errorf("the end is not %q:\n%s", want, &got)
	}
	o.join = filepath.Join(dir, "none")
	if _, err := join(&got, o); err == nil {
		t.Error("a file that does not exist was joined")
	}
}

func TestBadResultsOfEarlierRunsAreAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := (&summary{}).close(&bytes.Buffer{}, options{results: file})
	if want := "results of earlier runs in " + file + ": unexpected end of JSON input"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
