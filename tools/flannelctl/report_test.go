package flannelctl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/control"
)

// TestReport writes pages about a daemon that is well, one that answers nothing but its
// status, and one that is gone, together with another host's daemon.
func TestReport(t *testing.T) {
	const status = `{"Phase": "ready", "Ready": true, "Synced": true, "Subnet": "10.5.1.0-24"}`
	well := fakeDaemon(t, map[string]string{
		control.StatusPage: status,
		control.EventsPage: `{"Events": [{"At": "2026-11-22T10:00:00Z", "Kind": "config", "Text": "a&b"}]}`,
		control.PeersPage:  `{"Peers": []}`, control.DiffPage: `{"Lanes": [{"Lane": "host"}]}`,
	})
	busy := fakeDaemon(t, map[string]string{control.StatusPage: status})
	gone := filepath.Join(t.TempDir(), "subnet.env")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, map[string]string{
			control.StatusPage: `{"Phase": "ready", "Ready": true, "Subnet": "10.5.2.0-24"}`,
			control.EventsPage: `{"Events": []}`, control.PeersPage: `{"Peers": []}`, control.DiffPage: `{"Lanes": []}`,
		}[r.URL.Path])
	}))
	defer other.Close()
	for name, c := range map[string]struct {
		subnetFile, address string
		status              int
		says, shows         string
	}{
		"well":      {well, "", statusOK, "The daemon that answered is ready.", `a\u0026b`},
		"other too": {well, other.URL, statusOK, "2 of 2 daemons that answered are ready.", "10.5.2.0-24"},
		"busy": {busy, "", statusTrouble, "not known: this node: peers: flanneld at",
			"this node: difference: flanneld at"},
		"gone": {gone, other.URL, statusTrouble, "not known: this node: everything: no flanneld answers", "10.5.2.0-24"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.html")
			args := append([]string{"report", "-f", file, "--subnet-file", c.subnetFile}, strings.Fields(c.address)...)
			status, stdout, stderr := call(args...)
			if status != c.status || !strings.Contains(stdout, c.says) || !strings.Contains(stdout, file) {
				t.Errorf("status %d, want %d; printed %q; errors %q", status, c.status, stdout, stderr)
			}
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), c.shows) {
				t.Errorf("%v; the page lacks %q", err, c.shows)
			}
			if status, _, stderr := call(args...); status != statusTrouble || !strings.Contains(stderr, "file exists") {
				t.Errorf("the second page in the same file: status %d, %q", status, stderr)
			}
		})
	}
}
