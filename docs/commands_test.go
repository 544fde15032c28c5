package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// told matches what the line before a block of commands says of them: that they are not run, or the
// check that runs them.
var told = regexp.MustCompile("(?i)" +
	"\\([^()]*(not run|`make [a-z-]+`|the (tests|specs) of\\s`[^`]+`|run by hand)[^()]*\\)")

// checks matches the goals of make and the folders that such a line names.
var checks = regexp.MustCompile("`make ([a-z-]+)`|the (?:tests|specs) of\\s`([^`]+)`")

// changes matches a command within a sentence or a table that changes a cluster. Without arguments it is a name only.
var changes = regexp.MustCompile("`(kubectl|helm) [^`]*\\b(annotate|apply|create|delete|drain|edit|install|label|" +
	"patch|replace|restart|scale|set|taint|uninstall|upgrade) [^`]+`")

// Each block of commands for Kubernetes, and each command in a sentence that changes a cluster, says
// which check runs it, or that none does; and there is such a check.
func TestCommandsAreMarked(t *testing.T) {
	page, err := os.ReadFile("kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	paragraphs := strings.Split(string(page), "\n\n")
	blocks, inline := 0, 0
	for i, block := range paragraphs {
		var mark string
		switch commands := changes.FindAllStringIndex(block, -1); {
		case strings.HasPrefix(block, "    "), len(commands) > 0 && strings.HasPrefix(block, "|"):
			blocks++
			mark = told.FindString(paragraphs[i-1])
		case len(commands) > 0:
			inline++
			mark = told.FindString(block[commands[len(commands)-1][1]:])
		default:
			continue
		}
		if mark == "" {
			t.Errorf("nothing says whether this was run:\n%s", block)
		}
		for _, m := range checks.FindAllStringSubmatch(mark, -1) {
			if m[1] != "" && !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("there is no make %s", m[1])
			}
			if m[2] != "" {
				if _, err := os.Stat(root + "/" + m[2]); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if blocks < 10 || inline == 0 {
		t.Errorf("found %d blocks of commands, and %d commands in sentences", blocks, inline)
	}
}
