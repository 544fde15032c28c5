package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/flanneld/flannel/internal/suite/outcome"
)

// worlds are the places where a scenario runs. All except the first are real.
var worlds = [...]string{"sim", "netns", "vm"}

const (
	simulated = "sim"
	machine   = "vm"
)

// world returns where a scenario ran, and its name; empty if the result is not of
// a scenario.
func (r result) world() (world, scenario string) {
	if r.Pkg != "scenarios" && !strings.HasSuffix(r.Pkg, "/scenarios") {
		return "", ""
	}
	parts := strings.FieldsFunc(r.Name, func(c rune) bool { return c == '/' || c == ' ' })
	for i, part := range parts {
		if slices.Contains(worlds[:], part) {
			return part, strings.Join(parts[i+1:], "/")
		}
	}
	return "", ""
}

// replays says in which worlds one scenario ran.
type replays struct {
	ran    []string // worlds, without those that skipped it
	exempt bool     // no kernel has to run it
}

// real reports whether the scenario ran on a kernel.
func (p *replays) real() bool {
	return slices.ContainsFunc(p.ran, func(world string) bool { return world != simulated })
}

// byScenario sorts results by scenario.
func (s *summary) byScenario() map[string]*replays {
	all := map[string]*replays{}
	for _, r := range s.Results {
		world, scenario := r.world()
		if scenario == "" {
			continue
		}
		p := all[scenario]
		if p == nil {
			p = &replays{}
			all[scenario] = p
		}
		switch {
		case r.State != outcome.Skipped:
			p.ran = append(p.ran, world)
		case slices.Contains([]string{outcome.SimulatorOnly, outcome.TooLong, outcome.ForTestAll}, r.Reason):
			p.exempt = true
		}
	}
	return all
}

// unreal lists the scenarios that should run on a kernel, and ran on none.
func (s *summary) unreal() (scenarios []string) {
	all := s.byScenario()
	for _, scenario := range slices.Sorted(maps.Keys(all)) {
		p := all[scenario]
		if !p.exempt && !p.real() {
			scenarios = append(scenarios, scenario)
		}
	}
	return scenarios
}

// lost lists the scenarios that no kernel ran although a VM was tried. Without a VM,
// this host may just lack what they require.
func (s *summary) lost() []string {
	tried := slices.ContainsFunc(s.Results, func(r result) bool {
		world, _ := r.world()
		return world == machine
	})
	if !tried {
		return nil
	}
	return s.unreal()
}

// writeWorlds says how many scenarios passed in each world, and which worlds each of
// them ran in.
func (s *summary) writeWorlds(out io.Writer) {
	for _, world := range worlds {
		t := s.tally(func(r result) bool { w, _ := r.world(); return w == world })
		if t != (tally{}) {
			fmt.Fprintf(out, "  scenarios on %s: %v\n", world, t)
		}
	}
	count := map[string]int{}
	for _, p := range s.byScenario() {
		count[where(p)]++
	}
	if len(count) > 1 {
		for _, where := range slices.Sorted(maps.Keys(count)) {
			fmt.Fprintf(out, "    %s: %d\n", where, count[where])
		}
	}
}

// where names the worlds of a scenario, in the order of worlds.
func where(p *replays) string {
	var names []string
	for _, world := range worlds {
		if slices.Contains(p.ran, world) {
			names = append(names, world)
		}
	}
	if len(names) == 0 {
		return "in no world"
	}
	return "in " + strings.Join(names, ", ")
}

// writeUnreal lists the scenarios that ran on no kernel.
func (s *summary) writeUnreal(out io.Writer) {
	names := strings.Join(s.unreal(), ", ")
	switch {
	case len(s.lost()) > 0:
		fmt.Fprintf(out, "\nFailed, since no kernel ran them: %s\n", names)
	case names != "":
		fmt.Fprintf(out, "\nNo kernel ran these scenarios; make test-vm has another: %s\n", names)
	}
}
