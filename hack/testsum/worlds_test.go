package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

// replay returns the result of a scenario.
func replay(world, scenario, state, reason string) result {
	name := "TestScenarios/" + world + "/" + scenario
	return result{Outcome: outcome.Outcome{State: state, Name: name, Reason: reason}, Pkg: "scenarios", Test: name}
}

// TestScenariosWithoutAKernel checks that a scenario which no kernel ran fails the run if a
// VM was tried, unless the scenario says that it is for the simulator or too long, or the run leaves it to another.
func TestScenariosWithoutAKernel(t *testing.T) {
	s := &summary{Results: []result{
		replay("sim", "basic", outcome.Passed, ""), replay("netns", "basic", outcome.Passed, ""),
		replay("sim", "clock", outcome.Passed, ""), replay("netns", "clock", outcome.Skipped, outcome.SimulatorOnly),
		replay("sim", "long", outcome.Passed, ""), replay("netns", "long", outcome.Skipped, outcome.TooLong),
		replay("sim", "left", outcome.Passed, ""), replay("netns", "left", outcome.Skipped, outcome.ForTestAll),
		replay("sim", "ipip", outcome.Passed, ""), replay("netns", "ipip", outcome.Skipped, "this kernel lacks ipip"),
		replay("sim", "gre", outcome.Passed, ""), replay("netns", "gre", outcome.Skipped, "this kernel lacks gre"),
	}}
	if diff := cmp.Diff([]string{"gre", "ipip"}, s.unreal()); diff != "" {
		t.Errorf("on no kernel (-want +got):\n%s", diff)
	}
	if lost := s.lost(); lost != nil {
		t.Errorf("lost without a machine: %q", lost)
	}
	s.Results = append(s.Results, replay("vm", "ipip", outcome.Passed, ""), replay("vm", "gre", outcome.Skipped, "no gre"))
	if diff := cmp.Diff([]string{"gre"}, s.lost()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	var out bytes.Buffer
	s.write(&out)
	for _, want := range []string{
		"    in sim: 4\n    in sim, netns: 1\n    in sim, vm: 1\n",
		"\nFailed, since no kernel ran them: gre\n",
		"  scenarios, left to make test-all (1)\n",
		"\n8 passed, 1 failed, 6 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}
