package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A flanneld without an etcd inside continues as the one beside it that has one.
func TestEtcdIsInAnotherProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	flanneld := filepath.Join(dir, "flanneld")
	if err := os.WriteFile(flanneld, data, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(program string, args ...string) (says string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = []string{asFlanneld + "=" + withoutEtcd, "FLANNELD_ITS_OWN=kept"}
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("%v did not start", cmd)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}

	const cannot = "exit status 1: --embed-etcd: this flanneld has no etcd inside, and cannot continue as the one " +
		"that has, "
	beside := filepath.Join(dir, "flanneld-etcd")
	for name, c := range map[string]struct {
		make func() error
		why  string
	}{
		"alone":  {func() error { return nil }, "no such file or directory"},
		"link":   {func() error { return os.Symlink(flanneld, beside) }, "it has none either"},
		"folder": {func() error { return os.Mkdir(beside, 0o755) }, "permission denied"},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		says, status := run(flanneld, "--embed-etcd="+dir)
		if want := cannot + beside + ": " + c.why; status != 1 || !strings.Contains(says, want) {
			t.Errorf("%s: status %d, want 1 and %q in\n%s", name, status, want, says)
		}
		_ = os.Remove(beside)
	}

	if err := os.Link(flanneld, beside); err != nil {
		t.Fatal(err)
	}
	says, status := run(beside, "--embed-etcd="+dir)
	if status != 1 || !strings.Contains(says, "it has none either") {
		t.Errorf("a copy under the other name: status %d, want 1\n%s", status, says)
	}
	_ = os.Remove(beside)

	script := "#!/bin/sh\necho \"$*, $FLANNELD_ITS_OWN\"\nexit 7\n"
	if err := os.WriteFile(beside, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	says, status = run(flanneld, "--embed-etcd="+dir, "--iface=eth 0")
	if want := "--embed-etcd=" + dir + " --iface=eth 0, kept\n"; status != 7 || says != want {
		t.Errorf("beside the other program: status %d, want 7 and %q alone in\n%s", status, want, says)
	}
}
