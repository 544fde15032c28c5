package flannelctl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/tools/dump/dumptest"
)

// A dump holds the answers of further daemons, each in a folder of its own. One that does not answer is named.
func TestDumpOfOtherNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"TakenAt":"2026-05-01T00:00:00Z","Version":"v7 of `+r.URL.Path+`"}`)
	}))
	defer server.Close()
	folder := t.TempDir()
	path := filepath.Join(folder, "out.tar.gz")
	address := strings.TrimPrefix(server.URL, "http://")
	status, _, stderr := call("dump", address, "-f", path, "--subnet-file", filepath.Join(folder, "subnet.env"),
		"--state-file", filepath.Join(folder, "state"))
	if status != statusOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := dumptest.Files(t, archive)
	at := "nodes/" + strings.ReplaceAll(address, ":", "-") + "/"
	for _, name := range []string{"status.json", "peers.json", "diff.json", "state.json"} {
		if _, is := files[at+name]; !is {
			t.Errorf("no %s", at+name)
		}
	}
	if !strings.Contains(files[at+"status.json"], "v7 of /status") {
		t.Errorf("status: %s", files[at+"status.json"])
	}
	if _, is := files[at+"events.json"]; is || !strings.Contains(files["missing.txt"], at+"events.json") {
		t.Errorf("events, which the daemon did not answer: %t\n%s", is, files["missing.txt"])
	}
}
