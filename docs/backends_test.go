package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
)

// The marks around the generated part of operations.md. Run the tests with
// UPDATE=1 to write it again.
const (
	tableBegin = "<!-- backends: generated, see backends_test.go -->\n"
	tableEnd   = "<!-- end of backends -->\n"
)

// TestBackendTable holds the manual's table of backends equal to the registry.
func TestBackendTable(t *testing.T) {
	path := "operations.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q ... %q", path, tableBegin, tableEnd)
	}
	want := backendTable()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("UPDATE=1 go test ./docs writes it anew (-want +got):\n%s", diff)
	}
}

func backendTable() string {
	var b strings.Builder
	b.WriteString("| Type | Families | Option | Default | Values | |\n|---|---|---|---|---|---|\n")
	for _, s := range all.Specs() {
		fmt.Fprintf(&b, "| `%s` | %s | | | | %s |\n", s.Type, familiesText(s.Carries), s.Summary)
		for _, o := range s.Options {
			byDefault := code(o.Default)
			if o.Required {
				byDefault = "required"
			}
			fmt.Fprintf(&b, "| | | `%s` | %s | %s | %s |\n", o.Name, byDefault, valuesText(o), o.Help)
		}
	}
	return b.String()
}

func familiesText(carries []backend.Families) string {
	words := make([]string, len(carries))
	for i, f := range carries {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func valuesText(o backend.Option) string {
	switch {
	case o.Ignored:
		return "ignored"
	case o.Zero != "":
		return o.Wants() + "; 0 is " + o.Zero
	}
	return o.Wants()
}
