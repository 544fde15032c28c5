package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPackagesAreListed checks that architecture.md lists every folder within these
// folders.
func TestPackagesAreListed(t *testing.T) {
	data, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "## Packages\n")
	list, _, closed := strings.Cut(rest, "\n## ")
	if !found || !closed {
		t.Fatal("architecture.md has no section \"Packages\"")
	}
	for _, folder := range []string{"cmd", "core", "drivers", "drivers/linux", "drivers/sim", "scenarios", "internal"} {
		entries, err := os.ReadDir(filepath.Join("..", folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			if !entry.IsDir() || name == "internal" || name == "testdata" {
				continue
			}
			if !strings.Contains(list, " "+name+"/") && !strings.Contains(list, "\n"+folder+"/"+name+"/") {
				t.Errorf("architecture.md does not list %s/%s", folder, name)
			}
		}
	}
}

// TestAgentIsListed checks that simulation.md names every file of the agent, and that
// the tests that it names exist.
func TestAgentIsListed(t *testing.T) {
	data, err := os.ReadFile("simulation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "\n### What the simulator leaves out\n")
	section, _, found := strings.Cut(rest, "\n### ")
	if !found {
		t.Fatal("simulation.md has no section \"What the simulator leaves out\"")
	}
	files, err := filepath.Glob("../core/agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name != "doc.go" && !strings.HasSuffix(name, "_test.go") && !strings.Contains(section, "`"+name+"`") {
			t.Errorf("simulation.md does not say what runs in place of core/agent/%s", name)
		}
	}
	tests := strings.Builder{}
	for _, text := range sources(t, "_test.go") {
		tests.WriteString(text)
	}
	for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(section, -1) {
		if !strings.Contains(tests.String(), "\nfunc "+m[1]+"(") {
			t.Errorf("simulation.md names %s, which is not a test", m[1])
		}
	}
}
