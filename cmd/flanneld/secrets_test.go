package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestWireGuardKeyFile draws a key into the file of the environment (interop 1.3),
// and finds one that another program has put there.
func TestWireGuardKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "wgkey")
	o := options{getenv: func(name string) string {
		if name == "WIREGUARD_KEY_FILE" {
			return path
		}
		return ""
	}}
	drawn, err := o.secrets().Secret(dataplane.WireGuardKey)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != base64.StdEncoding.EncodeToString(drawn.Bytes()) {
		t.Errorf("the file does not hold the key: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o400 {
		t.Errorf("file %v, %v", info, err)
	}
	if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm()&^0o755 != 0 {
		t.Errorf("directory %v, %v", dir, err)
	}
	other := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(other+"\n"), 0o600); err != nil { // as wg genkey prints it
		t.Fatal(err)
	}
	found, err := o.secrets().Secret(dataplane.WireGuardKey)
	if err != nil || base64.StdEncoding.EncodeToString(found.Bytes()) != other {
		t.Errorf("another key than the file's: %v", err)
	}
	o.getenv = func(string) string { return "" }
	if got := o.secrets().KeyFile; got != "/run/flannel/wgkey" {
		t.Errorf("by default %s", got)
	}
}
