package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A flanneld without an etcd inside goes on as the one beside it that has one.
func TestEtcdIsInAnotherProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	flanneld := filepath.Join(dir, "flanneld")
	if err := os.WriteFile(flanneld, data, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (says string, status int) {
		t.Helper()
		cmd := exec.Command(flanneld, args...)
		cmd.Env = []string{asFlanneld + "=" + withoutEtcd, "FLANNELD_ITS_OWN=kept"}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("%v did not start", cmd)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}

	says, status := run("--embed-etcd=" + dir)
	want := "exit status 1: --embed-etcd: this flanneld has no etcd inside; the one that has does not start: " +
		dir + "/flanneld-etcd: no such file or directory; install it there, or run an etcd"
	if status != 1 || !strings.Contains(says, want) {
		t.Errorf("alone: status %d, want 1 and %q in\n%s", status, want, says)
	}

	script := "#!/bin/sh\necho \"$*, $FLANNELD_ITS_OWN\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, "flanneld-etcd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	says, status = run("--embed-etcd="+dir, "--iface=eth 0")
	if want := "--embed-etcd=" + dir + " --iface=eth 0, kept\n"; status != 7 || !strings.HasSuffix(says, want) {
		t.Errorf("beside the other program: status %d, want 7 and %q at the end of\n%s", status, want, says)
	}
	says, status = run("--embed-etcd="+dir, "--subnet-lease-renew-margin=0")
	if status != 1 {
		t.Errorf("with a bad flag: status %d, want 1\n%s", status, says)
	}
}
