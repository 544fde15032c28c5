package flannelctl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/control"
)

// A file that cannot be written whole is removed, and one that was there before stays.
func TestWriteNew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page")
	full := func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, unix.ENOSPC)
	}
	if err := writeNew(file, full); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "write "+file) {
		t.Errorf("on a full disk: %v", err)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(file, full); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	if text, err := os.ReadFile(file); string(text) != "old" || err != nil {
		t.Errorf("the file that was there: %q, %v", text, err)
	}
}

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
