package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// programs is the folder with the programs of the image.
const programs = "../../bin/"

// flanneld continues as the program with an etcd inside, which the image lacks.
func TestEtcdInside(t *testing.T) {
	data, err := os.ReadFile(programs + "flanneld")
	if err != nil {
		t.Skip("make build makes the programs")
	}
	alone := filepath.Join(t.TempDir(), "flanneld")
	if err := os.WriteFile(alone, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program, says string
	}{
		{alone, "exit status 1: --embed-etcd: this flanneld has no etcd inside"},
		{programs + "flanneld", "exit status 1: --net-config-path: open /nonexistent"}, // read after the etcd has started
	} {
		cmd := exec.Command(c.program, "--embed-etcd="+t.TempDir(),
			"--net-config-path=/nonexistent")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if status := cmd.ProcessState.ExitCode(); status != 1 || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: status %d, want 1 and %q in\n%s", c.program, status, c.says, out)
		}
	}
}

// The programs of make build, of the packages and of the image have the same tags.
func TestProgramsHaveTheSameTags(t *testing.T) {
	tags := func(file, pattern string) string {
		t.Helper()
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s has no %s", file, pattern)
		}
		return string(found[1])
	}
	want := tags("Makefile", `(?m)^PROGRAM_TAGS = (\S+)$`)
	for _, file := range []string{"deploy/Dockerfile", "hack/packages"} {
		if got := tags(file, ` -tags (\S+) (?s:.*)\./cmd/flanneld \./cmd/flannel-cni`); got != want {
			t.Errorf("%s builds with the tags %s, the Makefile with %s", file, got, want)
		}
	}
}
