package flannelctl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/flanneld/flannel/tools/cleanup"
	"github.com/flanneld/flannel/tools/output"
)

// People see the list before anything is removed. Programs get one result, and a host with a daemon keeps all.
func TestCleanupListsFirst(t *testing.T) {
	for _, c := range []struct {
		name    string
		format  output.Format
		dryRun  bool
		running []int
		listed  bool // before the run that removes
		runs    string
	}{
		{"a table", output.Table, false, nil, true, "list remove"},
		{"for a program", output.JSON, false, nil, false, "remove"},
		{"a dry run", output.Table, true, nil, false, "list"},
		{"a daemon runs", output.Table, false, []int{7}, false, "list remove"},
	} {
		var out bytes.Buffer
		a := &app{Printer: output.Printer{Out: &out, Format: c.format}}
		var runs []string
		err := a.remove(c.dryRun, func(dryRun bool) (*cleanup.Result, error) {
			runs = append(runs, map[bool]string{true: "list", false: "remove"}[dryRun])
			if got := strings.Contains(out.String(), "to remove  link  flannel.1"); !dryRun && got != c.listed {
				t.Errorf("%s: listed before the removal: %t, want %t\n%s", c.name, got, c.listed, out.String())
			}
			items := []cleanup.Item{{Kind: "link", Object: "flannel.1"}}
			return &cleanup.Result{DryRun: dryRun, Running: c.running, Items: items}, nil
		})
		if wantErr := len(c.running) > 0; (err != nil) != wantErr || strings.Join(runs, " ") != c.runs {
			t.Errorf("%s: %v, error %v; want %s", c.name, runs, err, c.runs)
		}
	}
}
