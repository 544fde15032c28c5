package diff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// text returns the text of a result on a terminal of 80 columns.
func text(t testing.TB, r Result, format output.Format) string {
	t.Helper()
	return outputtest.Print(t, output.Printer{Format: format, Width: 80}, r)
}

func TestNoDifference(t *testing.T) {
	r := Result{Lanes: []node.Difference{{Lane: "host"}, {Lane: "firewall"}}}
	if got := text(t, r, output.Table); got != "" || r.Trouble() {
		t.Errorf("%q, trouble: %t", got, r.Trouble())
	}
}

func TestDifference(t *testing.T) {
	r := Result{Lanes: []node.Difference{
		{Lane: "host", Lines: []node.Line{
			{Sign: "-", Object: "route 10.5.4.0/24 dev flannel.1"},
			{Sign: "+", Object: "route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink"},
			{Sign: "+", Object: "route 10.5.6.0/24 via 192.168.70.4 dev eth0", Why: "network is unreachable"},
		}},
		{Lane: "firewall", Notes: []string{"cannot read it: the lock is held"}},
	}}
	want := `- route 10.5.4.0/24 dev flannel.1
+ route 10.5.4.0/24 via 10.5.4.0 dev flannel.1 onlink
+ route 10.5.6.0/24 via 192.168.70.4 dev eth0  # network is unreachable
# firewall: cannot read it: the lock is held
`
	if d := cmp.Diff(want, text(t, r, output.Table)); d != "" || !r.Trouble() {
		t.Errorf("trouble: %t, (-want +got):\n%s", r.Trouble(), d)
	}
	if got := text(t, r, output.JSON); !strings.Contains(got, `"Why": "network is unreachable"`) {
		t.Errorf("%s", got)
	}
}
