package scenarios

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// quick reports whether make test plays a file on the kernel: those with the line "# also=quick". It plays all
// files on the simulator.
func quick(text string) bool { return slices.Contains(marks(text, "also"), "quick") }

// TestQuickScenariosHaveAllVerbsAndBackends checks that the files which make test plays on a kernel contain each
// verb and each backend that any file has there. Those for every kernel contain all that need no rare one.
func TestQuickScenariosHaveAllVerbsAndBackends(t *testing.T) {
	files, err := scenarioFiles()
	if err != nil {
		t.Fatal(err)
	}
	all, covered := map[string]bool{}, map[string]bool{}             // on any kernel
	everywhere, coveredThere := map[string]bool{}, map[string]bool{} // on a usual one
	for _, file := range files {
		text := readFile(t, file)
		needs := required(text)
		if slices.Contains(needs, "simulator") || slices.Contains(needs, "time") {
			continue
		}
		subjects := subjectsOf(t, text)
		usual := !slices.ContainsFunc(needs, func(feature string) bool { return slices.Contains(rare, feature) })
		maps.Copy(all, subjects)
		if usual {
			maps.Copy(everywhere, subjects)
		}
		if quick(text) {
			maps.Copy(covered, subjects)
		}
		if quick(text) && usual {
			maps.Copy(coveredThere, subjects)
		}
	}
	for what, missing := range map[string][]string{
		"on all kernels":    missing(all, covered),
		"on a usual kernel": missing(everywhere, coveredThere),
	} {
		if len(missing) > 0 {
			t.Errorf("the files with the line \"# also=quick\" lack %q, %s", missing, what)
		}
	}
}

// missing lists the keys of want that have lacks.
func missing(want, have map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return have[key] })
}

// typeOfBackend matches the type in a Backend object.
var typeOfBackend = regexp.MustCompile(`"Type": ?"([a-z0-9-]+)"`)

// subjectsOf returns the verbs of a file that a kernel plays, and its backends.
func subjectsOf(t *testing.T, text string) map[string]bool {
	t.Helper()
	subjects := map[string]bool{}
	datadriven.RunTestFromString(t, text, func(_ *testing.T, d *datadriven.TestData) string {
		if d.HasArg("only") {
			var only string
			d.ScanArgs(t, "only", &only)
			if only != "netns" {
				return d.Expected
			}
		}
		subjects["verb "+d.Cmd] = true
		if d.Cmd != "topology" && d.Cmd != "store" {
			return d.Expected
		}
		backend := "vxlan"
		if d.HasArg("backend") {
			d.ScanArgs(t, "backend", &backend)
		}
		types := typeOfBackend.FindAllStringSubmatch(d.Input, -1)
		if d.Cmd == "topology" && len(types) == 0 {
			subjects["backend "+backend] = true
		}
		for _, m := range types {
			subjects["backend "+m[1]] = true
		}
		return d.Expected
	})
	return subjects
}
