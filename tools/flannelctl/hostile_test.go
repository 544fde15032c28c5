package flannelctl

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
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
				_, stdout, stderr := call(strings.Fields(command + format + " --subnet-file " + file)...)
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
