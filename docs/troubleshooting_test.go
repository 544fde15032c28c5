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
	rows := 0
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), " |")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Symptom") {
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
	if rows < 19 {
		t.Errorf("found %d rows", rows)
	}
}
