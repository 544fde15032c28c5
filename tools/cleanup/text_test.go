package cleanup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

func TestText(t *testing.T) {
	items := []Item{{Kind: "link", Object: "flannel.1"}, {Kind: "file", Object: "/run/x"}}
	failed := Item{Kind: "route", Object: "10.5.2.0/24", Error: "busy"}
	for _, c := range []struct {
		name    string
		result  Result
		trouble bool
		want    string
	}{
		{"nothing", Result{}, false, "Nothing of flannel's is on this host.\n"},
		{"a list", Result{DryRun: true, Items: items, Running: []int{7}}, false, `OUTCOME    KIND  OBJECT
to remove  link  flannel.1
to remove  file  /run/x
running:  flanneld runs on this host as process 7 and would make all of it again; stop it first
`},
		{"all is well", Result{Items: items, Kept: []Item{{Kind: "folder", Object: "/var", Why: "it stays"}},
			Notes: []string{"no nft"}}, false, `OUTCOME  KIND  OBJECT
removed  link  flannel.1
removed  file  /run/x
kept:  folder /var: it stays
note:  no nft
`},
		{"a daemon runs", Result{Items: items, Running: []int{7}}, true, `OUTCOME  KIND  OBJECT
stays    link  flannel.1
stays    file  /run/x
running:  flanneld runs on this host as process 7 and would make all of it again; stop it first
`},
		{"a failure", Result{Items: []Item{failed}, Unknown: []string{"state file: damaged"}}, true, `OUTCOME  KIND   OBJECT
failed   route  10.5.2.0/24
error:    route 10.5.2.0/24: busy
unknown:  state file: damaged
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, outputtest.Print(t, output.Printer{}, &c.result)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if c.result.Trouble() != c.trouble {
				t.Errorf("trouble: %t", c.result.Trouble())
			}
		})
	}
}
