package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// testOf matches the last cell of a row: the file of a test, and words that stand in it.
var testOf = regexp.MustCompile("^`([^`]+)`: (.+)$")

// Each row of the table names the test that reproduces it.
func TestTroublesHaveTests(t *testing.T) {
	page, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	checkRows(t, string(page), "| Symptom", 19)
}

// Each row of the table of older releases names the test of the flag or behaviour.
func TestOlderReleasesHaveTests(t *testing.T) {
	page, err := os.ReadFile("interop.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n## 11. ")
	if !found {
		t.Fatal("interop.md has no section 11")
	}
	checkRows(t, table, "| Flag or behaviour", 40)
}

// checkRows checks that each row of a page's tables names a test, and that there are enough.
func checkRows(t *testing.T, page, heading string, atLeast int) {
	t.Helper()
	rows := 0
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(strings.TrimSpace(line), " |")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, heading) {
			continue
		}
		rows++
		cells := strings.Split(line, " | ")
		named := testOf.FindStringSubmatch(cells[len(cells)-1])
		if named == nil {
			t.Errorf("this row names no test: %s", line)
			continue
		}
		text, err := os.ReadFile(root + "/" + named[1])
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(text), named[2]) {
			t.Errorf("%s does not say %q, as the row claims: %s", named[1], named[2], cells[0])
		}
	}
	if rows < atLeast {
		t.Errorf("found %d rows, want at least %d", rows, atLeast)
	}
}
