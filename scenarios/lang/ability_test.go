package lang

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/internal/imports"
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
	own, err := imports.Own(".")
	if err != nil {
		t.Fatal(err)
	}
	worlds := []string{"drivers/", "harness", "scenarios/simworld", "scenarios/labworld", "scenarios/check/invariants"}
	for _, path := range own {
		for _, world := range worlds {
			if strings.HasPrefix(path, world) {
				t.Errorf("the language imports %s, which belongs to one world", path)
			}
		}
	}
}
