package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The plugin lies beside the daemon, here beside the test.
func TestInstallCNI(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "cni-conf.json")
	const text = `{"name":"cbr0","plugins":[{"type":"flannel"}]}`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(filepath.Dir(self), pluginName)
	args := []string{"flanneld", "--install-cni", "--cni-bin-dir=" + dir, "--cni-conf-dir=" + dir, "--cni-conf=" + conf}
	var out bytes.Buffer
	if status := flanneld(args, func(string) string { return "" }, &out); status != statusFailed {
		t.Errorf("without a plugin: status %d", status)
	}
	if err := os.WriteFile(plugin, []byte("machine code"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(plugin) })
	if status := flanneld(args, func(string) string { return "" }, &out); status != statusOK {
		t.Errorf("status %d", status)
	}
	for name, want := range map[string]string{"flannel": "machine code", "10-flannel.conflist": text} {
		if have, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(have) != want {
			t.Errorf("%s holds %q, %v", name, have, err)
		}
	}
}
