package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
)

// The marks around the generated part of operations.md. Run the tests with
// UPDATE=1 to write it anew.
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
	var missing []string
	for _, s := range all.Specs() {
		if !s.Available() {
			missing = append(missing, "`"+s.Type+"`")
			continue
		}
		fmt.Fprintf(&b, "| `%s` | %s | | | | %s |\n", s.Type, familiesText(s.Carries), s.Summary)
		for _, o := range s.Options {
			byDefault := code(o.Default)
			if o.Required {
				byDefault = "required"
			}
			fmt.Fprintf(&b, "| | | `%s` | %s | %s | %s |\n", o.Name, byDefault, valuesText(o), o.Help)
		}
	}
	fmt.Fprintf(&b, "\nNot available yet: %s. A config that asks for one of them is refused.\n",
		strings.Join(missing, ", "))
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

// TestChartKnowsTheOptions holds the chart's schema and its list of backends equal to the registry.
func TestChartKnowsTheOptions(t *testing.T) {
	schema := chartSchema(t)
	var inContainers []string
	for _, s := range all.Specs() {
		if s.Available() && s.Needs == "" {
			inContainers = append(inContainers, fmt.Sprintf("%q", s.Type))
		}
		for _, o := range s.Options {
			if o.ChartValue == "" {
				continue
			}
			if diff := cmp.Diff(optionSchema(o), schema[o.ChartValue]); diff != "" {
				t.Errorf("values.schema.json, flannel.%s, is not what the option %s of %s takes (-want +got):\n%s",
					o.ChartValue, o.Name, s.Type, diff)
			}
		}
	}
	check, err := os.ReadFile(filepath.Join(root, "deploy/chart/templates/_helpers.tpl"))
	if err != nil {
		t.Fatal(err)
	}
	if list := "(list " + strings.Join(inContainers, " ") + ")"; !strings.Contains(string(check), list) {
		t.Errorf("_helpers.tpl does not accept exactly the backends %s", list)
	}
}

// chartSchema returns the schemas of the chart's values below flannel.
func chartSchema(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "deploy/chart/values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Flannel struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties.Flannel.Properties
}

// optionSchema returns what the schema says of a value for an option.
func optionSchema(o backend.Option) map[string]any {
	limits := map[string]any{"minimum": float64(o.Min), "maximum": float64(o.Max)}
	switch {
	case o.Kind == backend.Switch:
		return map[string]any{"type": "boolean"}
	case o.Choices != nil:
		var values []any
		for _, choice := range o.Choices {
			values = append(values, choice)
		}
		return map[string]any{"enum": values}
	case o.Kind == backend.Text:
		return map[string]any{"type": "string", "pattern": o.Pattern}
	case o.Zero != "" && o.Min > 1:
		return map[string]any{"type": "integer", "anyOf": []any{map[string]any{"const": 0.0}, limits}}
	case o.Zero != "":
		limits["minimum"] = 0.0
	}
	limits["type"] = "integer"
	return limits
}
