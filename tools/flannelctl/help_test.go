package flannelctl

import (
	"strings"
	"testing"
)

// TestHelpFits looks at the help of each command on terminals: no line is wider, and no word is
// lost.
func TestHelpFits(t *testing.T) {
	for _, command := range (&app{}).root().Commands() {
		args := []string{command.Name(), "--help"}
		_, unlimited, _ := call(args...)
		for _, width := range []int{80, 160} {
			status, stdout, _ := callAt(width, args...)
			for line := range strings.Lines(stdout) {
				if len([]rune(strings.TrimSpace(line))) > width {
					t.Errorf("%s: wider than %d: %s", command.Name(), width, line)
				}
			}
			same := strings.Join(strings.Fields(stdout), " ") == strings.Join(strings.Fields(unlimited), " ")
			if !same || status != 0 {
				t.Errorf("%s at %d: status %d, words lost:\n%s", command.Name(), width, status, stdout)
			}
		}
	}
	const want = `      --flag name   first words
                    and more
prose is broken like this
`
	if got := fitted("      --flag name   first words and more\nprose is broken like this\n", 32); got != want {
		t.Errorf("%q", got)
	}
}
