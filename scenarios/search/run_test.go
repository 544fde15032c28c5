package search

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/scenarios/lang"
)

// TestPanicIsAFailure lets a world panic under a step: the seed fails, and says where.
func TestPanicIsAFailure(t *testing.T) {
	s := lang.NewSession("sim", func(lang.Topology) (lang.World, error) {
		var none *int
		*none = 1
		return nil, nil
	})
	line := "topology nodes=2 segments=1 backend=vxlan families=v4"
	got := perform(s, nil, Step{Line: line})
	want := line + ": panic: runtime error: invalid memory address or nil pointer dereference in " +
		"github.com/flanneld/flannel/scenarios/search.TestPanicIsAFailure.func1, line 14"
	if !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
