package lang

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// hostOnly is a node that can change links and nothing else.
type hostOnly struct {
	Node
	LinkEditor
}

func TestErrorNamesWorldAndInterface(t *testing.T) {
	s := NewSession("netns", nil)
	if _, err := able[LinkEditor](s, hostOnly{}); err != nil {
		t.Errorf("a node with a LinkEditor: %v", err)
	}
	const want = "world netns has no KernelRefuser"
	if _, err := able[KernelRefuser](s, hostOnly{}); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestLanguageImportsNoWorld(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, world := range []string{"drivers/", "harness", "scenarios/simworld", "scenarios/labworld",
				"scenarios/check/invariants"} {
				if strings.HasPrefix(path, "github.com/flanneld/flannel/"+world) {
					t.Errorf("%s imports %s, which belongs to one world", file.Name(), path)
				}
			}
		}
	}
}
