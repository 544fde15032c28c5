package flannelctl

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/control"
)

// fakeDaemon answers at a control socket, and returns the path of its subnet file.
func fakeDaemon(t *testing.T, pages map[string]string) string {
	t.Helper()
	subnetFile := filepath.Join(t.TempDir(), "subnet.env")
	l, err := net.Listen("unix", control.Socket(subnetFile))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, pages[r.URL.Path]) }),
	}}
	server.Start()
	t.Cleanup(server.Close)
	return subnetFile
}

// The exit status says whether all is well.
func TestCommandsThatAsk(t *testing.T) {
	well := fakeDaemon(t, map[string]string{
		control.StatusPage: `{"Phase": "ready", "Ready": true, "Version": "v9"}`,
		control.PeersPage: `{"Peers": [{"Subnet": "10.5.3.0-24", "State": "served",
			"Ways": [{"Subnet": "10.5.3.0/24", "Type": "tunnel", "Link": "flannel.1"}]}]}`,
		control.DiffPage: `{"Lanes": [{"Lane": "host"}]}`,
	})
	ill := fakeDaemon(t, map[string]string{
		control.StatusPage: `{"Phase": "leased", "Reasons": ["the host is not yet as desired"]}`,
		control.PeersPage:  `{"Peers": [{"Subnet": "10.5.3.0-24", "State": "pending"}]}`,
		control.DiffPage:   `{"Lanes": [{"Lane": "host", "Lines": [{"Sign": "+", "Object": "link flannel.1"}]}]}`,
	})
	gone := filepath.Join(t.TempDir(), "subnet.env")
	for _, c := range []struct {
		args, subnetFile string
		status           int
		says             string // part of what it prints, or of its error
	}{
		{"status", well, statusOK, "phase     ready"},
		{"status --wait", well, statusOK, "phase     ready"},
		{"status", ill, statusTrouble, "the host is not yet as desired"},
		{"status --wait --timeout 300ms", ill, statusTrouble, "the host is not yet as desired"},
		{"status", gone, statusTrouble, "no flanneld answers"},
		{"status --wait --timeout 10ms", gone, statusTrouble, "no flanneld answers"},
		{"peers", well, statusOK, "1 peer: 1 served"},
		{"peers 10.5.3.9 -o json", well, statusOK, `"Subnet": "10.5.3.0-24"`},
		{"peers 10.5.4.9", well, statusTrouble, "no peer has 10.5.4.9/32"},
		{"peers n7", well, statusUsage, "want a subnet"},
		{"peers", ill, statusTrouble, "1 peer: 1 pending"},
		{"diff", well, statusOK, ""},
		{"diff", ill, statusTrouble, "+ link flannel.1"},
		{"version", well, statusOK, "flanneld    v9"},
		{"version", gone, statusOK, "flanneld    does not answer"},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := append(strings.Fields(c.args), "--subnet-file", c.subnetFile)
			status, stdout, stderr := call(args...)
			if status != c.status || !strings.Contains(stdout+stderr, c.says) {
				t.Errorf("status %d, want %d; printed %q; errors %q", status, c.status, stdout, stderr)
			}
		})
	}
}
