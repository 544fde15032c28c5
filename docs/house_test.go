package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHouse checks that architecture.md lists every room: each folder within these
// folders.
func TestHouse(t *testing.T) {
	data, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(data), "## The house\n")
	house, _, closed := strings.Cut(rest, "\n## ")
	if !found || !closed {
		t.Fatal("architecture.md has no section \"The house\"")
	}
	for _, floor := range []string{"cmd", "core", "drivers", "drivers/linux", "drivers/sim", "scenarios", "internal"} {
		rooms, err := os.ReadDir(filepath.Join("..", floor))
		if err != nil {
			t.Fatal(err)
		}
		for _, room := range rooms {
			name := room.Name()
			if !room.IsDir() || name == "internal" || name == "testdata" {
				continue
			}
			if !strings.Contains(house, " "+name+"/") && !strings.Contains(house, "\n"+floor+"/"+name+"/") {
				t.Errorf("architecture.md does not draw %s/%s", floor, name)
			}
		}
	}
}

// TestAgentIsListed checks that simulation.md names every file of the agent, and that
// the tests it names exist.
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
			t.Errorf("simulation.md names %s, which is no test", m[1])
		}
	}
}
