package flannelctl

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archived returns the files of an archive, without the folder that holds them all.
func archived(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}

// A dump holds the answers of further daemons, each in a folder of its own. One that does not answer is named.
func TestDumpOfOtherNodes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"Version":"v7 of `+r.URL.Path+`"}`)
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
	files := archived(t, path)
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
