// Package host_test checks the units with which systemd runs flanneld on plain hosts.
package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// exposure is the most that systemd may find wrong with the rights of flanneld, in
// tenths. Its rights over the network make up most of it.
const exposure = "23"

// analyze runs systemd-analyze and returns its output. It skips the test where that
// is not installed.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs the program systemd-analyze: apt-get install systemd")
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// write writes a file below root.
func write(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// read returns a file of this directory.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stubs are the units and programs that the units refer to.
func stubs(t *testing.T, root string) {
	t.Helper()
	const units = "usr/lib/systemd/system/"
	for _, target := range []string{"sysinit", "basic", "shutdown", "multi-user", "network-online", "nss-lookup"} {
		write(t, root, units+target+".target", "[Unit]\nDescription=stub\n", 0o644)
	}
	write(t, root, units+"docker.service",
		"[Unit]\nDescription=Docker\n[Service]\nType=notify\nExecStart=/usr/bin/dockerd -H fd://\n", 0o644)
	for _, program := range []string{"usr/sbin/flanneld", "usr/bin/dockerd", "usr/libexec/flannel/mk-docker-opts.sh"} {
		write(t, root, program, "#!/bin/sh\n", 0o755)
	}
}

// systemd knows all settings of the units, and the programs that they start are there.
func TestUnitsAreValid(t *testing.T) {
	root := t.TempDir()
	stubs(t, root)
	write(t, root, "usr/lib/systemd/system/flanneld.service", read(t, "flanneld.service"), 0o644)
	write(t, root, "etc/systemd/system/docker.service.d/flannel.conf", read(t, "docker.service.d/flannel.conf"), 0o644)
	complaints := analyze(t, "verify", "--man=no", "--root="+root, "flanneld.service", "docker.service")
	if complaints != "" {
		t.Error(complaints)
	}
}

// flanneld keeps no right that it can do without, in the judgement of systemd.
func TestUnitIsHardened(t *testing.T) {
	root := t.TempDir()
	stubs(t, root)
	write(t, root, "usr/lib/systemd/system/flanneld.service", read(t, "flanneld.service"), 0o644)
	analyze(t, "security", "--offline=yes", "--no-pager", "--threshold="+exposure, "--root="+root, "flanneld.service")
}
