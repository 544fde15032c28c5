package scenarios

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/flanneld/flannel/scenarios/lang"
)

// commandRow is the first cell of a row in the manual's tables of commands.
var (
	commandRow = regexp.MustCompile("(?m)^\\| (`.*`) \\|")
	command    = regexp.MustCompile("`([a-z-]+)")
)

func TestManualHasEveryVerb(t *testing.T) {
	manual, err := os.ReadFile("../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, row := range commandRow.FindAllStringSubmatch(string(manual), -1) {
		for _, m := range command.FindAllStringSubmatch(row[1], -1) {
			described[m[1]] = true
			if !slices.Contains(lang.VerbNames(), m[1]) {
				t.Errorf("docs/scenarios.md describes %s, which is no verb", m[1])
			}
		}
	}
	for _, verb := range lang.VerbNames() {
		if !described[verb] {
			t.Errorf("docs/scenarios.md does not describe the verb %s", verb)
		}
	}
}
