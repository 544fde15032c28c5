package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed is a module in the first column of record 0006's table.
var listed = regexp.MustCompile(`(?m)^\|([^|]*)\|`)

func TestDependenciesHaveReasons(t *testing.T) {
	record, err := os.ReadFile("adr/0006-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, row := range listed.FindAllStringSubmatch(string(record), -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			modules = append(modules, name[1])
		}
	}
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	required := map[string]bool{}
	for _, r := range mod.Require {
		if !r.Indirect {
			required[r.Path] = true
		}
	}
	for _, tool := range mod.Tool {
		for _, r := range mod.Require {
			if strings.HasPrefix(tool.Path, r.Path+"/") {
				required[r.Path] = true
			}
		}
	}

	for path := range required {
		if !slices.Contains(modules, path) {
			t.Errorf("go.mod requires %s, for which record 0006 gives no reason", path)
		}
	}
	for _, name := range modules {
		if !required[name] {
			t.Errorf("record 0006 gives a reason for %s, which go.mod does not require", name)
		}
	}
}
