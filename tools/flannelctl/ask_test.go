package flannelctl

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
)

// fakeDaemon answers at a control socket, and returns the path of its subnet file. To other
// questions it says that it is busy.
func fakeDaemon(t *testing.T, pages map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d") // with the test's name the path would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	subnetFile := filepath.Join(dir, "subnet.env")
	l, err := net.Listen("unix", control.Socket(subnetFile))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page, answers := pages[r.URL.Path]
			if !answers {
				http.Error(w, "the node is busy", http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, page)
		}),
	}}
	server.Start()
	t.Cleanup(server.Close)
	return subnetFile
}

// statuses are those of daemons in trouble, which answer no other question while they are busy.
var statuses = map[string]string{
	"busy":   `{"Phase": "ready", "Ready": true, "Subnet": "10.5.1.0-24", "Age": 90000000000}`,
	"fenced": `{"Phase": "leased", "Fenced": true, "Reasons": ["the subnet may belong to another node"]}`,
	"stale":  `{"Phase": "programmed", "Stale": true, "Reasons": ["the datastore does not answer"]}`,
}

// TestDaemonsInTrouble runs each command against daemons that are busy, fenced and stale: it
// shows what they say, and what it could not learn.
func TestDaemonsInTrouble(t *testing.T) {
	const missing = "the node is busy"
	for _, c := range []struct {
		daemon, args string
		status       int
		says         []string
	}{
		{"busy", "status", statusTrouble, []string{"1m30s", "10.5.1.0/24"}},
		{"busy", "peers", statusTrouble, []string{missing}},
		{"busy", "diff", statusTrouble, []string{missing}},
		{"busy", "mesh", statusTrouble, []string{missing}},
		{"busy", "ping 10.5.3.0/24", statusTrouble, []string{missing}},
		{"busy", "version", statusOK, []string{"flanneld"}},
		{"busy", "report -f FILE", statusTrouble, []string{"not known", missing}},
		{"fenced", "status", statusTrouble, []string{"the subnet may belong to another node"}},
		{"fenced", "report -f FILE", statusTrouble, []string{"the subnet may belong to another node", missing}},
		{"stale", "status", statusTrouble, []string{"the datastore does not answer"}},
		{"stale", "report -f FILE", statusTrouble, []string{"the datastore does not answer", missing}},
	} {
		t.Run(c.daemon+" "+c.args, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "page.html")
			args := arguments(strings.ReplaceAll(c.args, "FILE", file))
			subnetFile := fakeDaemon(t, map[string]string{control.StatusPage: statuses[c.daemon]})
			status, stdout, stderr := call(append(args, "--subnet-file", subnetFile)...)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for _, text := range c.says {
				if !strings.Contains(stdout+stderr, text) {
					t.Errorf("does not say %q: printed %q; errors %q", text, stdout, stderr)
				}
			}
		})
	}
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
			args := append(arguments(c.args), "--subnet-file", c.subnetFile)
			status, stdout, stderr := call(args...)
			if status != c.status || !strings.Contains(stdout+stderr, c.says) {
				t.Errorf("status %d, want %d; printed %q; errors %q", status, c.status, stdout, stderr)
			}
		})
	}
}

// TestErrorsAreSafe asks a program that sends escape sequences to the terminal.
func TestErrorsAreSafe(t *testing.T) {
	subnetFile := fakeDaemon(t, map[string]string{})
	_, stdout, stderr := call("status", "--subnet-file", subnetFile+"\x1b]0;title\a")
	if strings.ContainsAny(stdout+stderr, "\x1b\a") || !strings.Contains(stderr, `\x1b]0;title\a`) {
		t.Errorf("printed %q; errors %q", stdout, stderr)
	}
}

// full is a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestWatchEnds ends with --watch if the results can be written nowhere.
func TestWatchEnds(t *testing.T) {
	subnetFile := fakeDaemon(t, map[string]string{control.StatusPage: `{"Phase": "ready", "Ready": true}`})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errs bytes.Buffer
	a := &app{stderr: &errs}
	a.Out = full{}
	status := a.run(ctx, []string{"status", "--watch", "--subnet-file", subnetFile})
	if status != statusTrouble || !strings.Contains(errs.String(), "no space left on device") || ctx.Err() != nil {
		t.Errorf("status %d; errors %q", status, errs.String())
	}
}
