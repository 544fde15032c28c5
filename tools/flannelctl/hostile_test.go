package flannelctl

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/output"
)

// hostileText holds what a peer or another program may put into any text of a daemon's answer.
const hostileText = "a\x1b[2J\x1b]0;t\x07\r\nb\x00\u009b31m\u202ec\u2066<script>x</script>\";$(id)`id`' "

// hostileAnswer returns the JSON of a value whose every text is hostile.
func hostileAnswer[T any](t *testing.T) string {
	t.Helper()
	var v T
	value := reflect.ValueOf(&v).Elem()
	fill(rand.New(rand.NewPCG(5, 6)), value)
	poison(value)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// poison sets all texts in a value.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(hostileText)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			poison(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i))
			}
		}
	}
}

// TestHostileAnswers prints the answers of a daemon with hostile texts in every field, in all formats. No control
// character reaches the terminal, and no markup the page.
func TestHostileAnswers(t *testing.T) {
	differs, err := json.Marshal(control.Diff{Lanes: []node.Difference{{
		Lane: hostileText, Notes: []string{hostileText},
		Lines: []node.Line{{Sign: "+", Object: hostileText, Why: hostileText}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	subnetFile := fakeDaemon(t, map[string]string{
		control.StatusPage: hostileAnswer[node.Status](t), control.PeersPage: hostileAnswer[control.Peers](t),
		control.DiffPage: hostileAnswer[control.Diff](t), control.EventsPage: hostileAnswer[control.Events](t),
		control.StatePage: hostileAnswer[control.State](t),
	})
	diffFile := fakeDaemon(t, map[string]string{control.DiffPage: string(differs)})
	page := filepath.Join(t.TempDir(), "page.html")
	for _, command := range []string{"status", "peers", "diff", "mesh", "version", "report -f " + page} {
		for _, format := range []string{"", " -o json", " -o yaml"} {
			if strings.HasPrefix(command, "report") && format != "" {
				continue // the page exists
			}
			t.Run(command+format, func(t *testing.T) {
				file := subnetFile
				if command == "diff" {
					file = diffFile
				}
				_, stdout, stderr := call(arguments(command + format + " --subnet-file " + file)...)
				if stdout == "" {
					t.Fatalf("printed nothing: %s", stderr)
				}
				for _, r := range stdout + stderr {
					if r != '\n' && (unicode.IsControl(r) || format != " -o yaml" && unicode.Is(unicode.Bidi_Control, r)) {
						t.Fatalf("prints %q:\n%q", r, stdout+stderr)
					}
				}
			})
		}
	}
	data, err := os.ReadFile(page)
	text := string(data)
	if err != nil || text == "" || strings.Contains(text, "<script>x</script>") {
		t.Error("the page has the markup of an answer")
	}
}

// TestHostileResults prints the results of the other commands with hostile texts in every field, remedies included, as
// a terminal shows them and in all formats. No control character reaches the terminal.
func TestHostileResults(t *testing.T) {
	for command, types := range results {
		if slices.Contains([]string{"status", "diff", "peers"}, command) {
			continue // TestHostileAnswers prints what a daemon says
		}
		for _, kind := range types {
			shown := false
			for seed := range uint64(20) {
				shown = printHostile(t, command, kind, seed) || shown
			}
			if slices.Contains([]string{"check", "trace", "mesh", "cleanup"}, command) && !shown {
				t.Errorf("%s shows no text of %s to people", command, kind)
			}
		}
	}
}

// printHostile prints a result with random members, whose texts are hostile. It reports whether people see such a text.
func printHostile(t *testing.T, command string, kind reflect.Type, seed uint64) (shown bool) {
	value := reflect.New(kind)
	fill(rand.New(rand.NewPCG(seed, 8)), value.Elem())
	poison(value.Elem())
	result, isResult := value.Interface().(output.Result)
	if !isResult {
		t.Errorf("%s: %s cannot be printed", command, kind)
		return false
	}
	for _, format := range []output.Format{output.Table, output.JSON, output.YAML} {
		var out strings.Builder
		p := output.Printer{Out: &out, Format: format, Width: 100, Terminal: true}
		if err := p.Print(result); err != nil {
			t.Errorf("%s as %s: %v", command, format, err)
		}
		for _, r := range out.String() {
			if r != '\n' && (unicode.IsControl(r) || format != output.YAML && unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%s as %s prints %q:\n%q", command, format, r, out.String())
				break
			}
		}
		shown = shown || format == output.Table && strings.Contains(out.String(), "<script>")
	}
	return shown
}
