package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// builder compiles the checks of a package with its mutants.
type builder struct {
	root, scratch string
	overlay       string // the file that lists the changed sources
	seeds         int    // of the random search
}

// newBuilder writes the changed sources of a package where builds find them.
func newBuilder(root, scratch string, m *mutated, seeds int) (*builder, error) {
	replace := map[string]string{}
	for name, text := range m.overlay {
		copied := filepath.Join(scratch, filepath.Base(name))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return nil, err
		}
		replace[name] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	b := &builder{root: root, scratch: scratch, overlay: filepath.Join(scratch, "overlay.json"), seeds: seeds}
	return b, os.WriteFile(b.overlay, list, 0o600)
}

// unitTests compiles the tests in the folder of the package. For a package of
// the core these are the tests of its whole family: core/backend/all tests
// core/backend/vxlan too.
func (b *builder) unitTests(m *mutated) ([]*check, error) {
	packages, err := b.testing(family(m.folder), m.path)
	if err != nil {
		return nil, err
	}
	var checks []*check
	for i, p := range packages {
		binary := filepath.Join(b.scratch, fmt.Sprintf("unit%d.test", i))
		if err := b.gotool("test", "-c", "-o", binary, p.ImportPath); err != nil {
			return nil, err
		}
		argv := []string{binary, "-test.failfast"}
		if slices.Contains(append(p.TestImports, p.XTestImports...), "pgregory.net/rapid") {
			argv = append(argv, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		}
		checks = append(checks, &check{name: "the tests of " + p.ImportPath, dir: p.Dir, argv: argv})
	}
	return checks, nil
}

// family returns the pattern of the packages whose tests count for a folder.
func family(folder string) string {
	parts := strings.Split(folder, "/")
	if parts[0] == "core" && len(parts) > 1 {
		return "./core/" + parts[1] + "/..."
	}
	return "./" + folder
}

// tested is the answer of go list about a package.
type tested struct {
	ImportPath, Dir                          string
	Imports, Deps, TestImports, XTestImports []string
	TestGoFiles, XTestGoFiles                []string
}

// testing lists the packages of a pattern whose tests use the package at path.
// That one comes first.
func (b *builder) testing(pattern, path string) ([]tested, error) {
	cmd := exec.Command("go", "list", "-json", pattern)
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pattern, err)
	}
	var found []tested
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p tested
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("list %s: %w", pattern, err)
		}
		uses := slices.Concat([]string{p.ImportPath}, p.Deps, p.TestImports, p.XTestImports)
		hasTests := len(p.TestGoFiles)+len(p.XTestGoFiles) > 0
		switch {
		case !hasTests || !slices.Contains(uses, path):
			continue
		case p.ImportPath == path:
			found = slices.Insert(found, 0, p)
		default:
			found = append(found, p)
		}
	}
	return found, nil
}

const (
	scenariosPath = "./scenarios"
	searchPath    = "./scenarios/cmd/sim"
)

// simulation compiles the scenarios and the random search; nothing if the
// simulator does not contain the package.
func (b *builder) simulation(m *mutated) ([]*check, error) {
	cmd := exec.Command("go", "list", "-deps", searchPath)
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of the simulator: %w", err)
	}
	if !slices.Contains(strings.Fields(string(out)), m.path) {
		return nil, nil
	}
	scenarios, search := filepath.Join(b.scratch, "scenarios.test"), filepath.Join(b.scratch, "sim")
	if err := b.gotool("test", "-c", "-o", scenarios, scenariosPath); err != nil {
		return nil, err
	}
	if err := b.gotool("build", "-o", search, searchPath); err != nil {
		return nil, err
	}
	return []*check{
		{name: "the scenarios", dir: filepath.Join(b.root, scenariosPath),
			argv: []string{scenarios, "-test.run", "^TestScenarios$", "-test.failfast"}},
		{name: "the random search", dir: b.scratch,
			argv: []string{search, "-seeds", fmt.Sprint(b.seeds), "-j", "1", "-minimise=false"}},
	}, nil
}

// gotool compiles something with the mutants in it.
func (b *builder) gotool(verb string, args ...string) error {
	cmd := exec.Command("go", append([]string{verb, "-overlay", b.overlay, "-ldflags=-s -w"}, args...)...)
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go %s with mutants: %w\n%s", verb, err, out)
	}
	return nil
}
