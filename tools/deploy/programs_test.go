package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// programs returns the folder with the programs of the image.
func programs(t *testing.T) string {
	t.Helper()
	const folder = "../../bin/image/"
	if _, err := os.Stat(folder); err != nil {
		t.Skip("make bin/image makes the programs of the image")
	}
	return folder
}

// The image has flanneld under two names, and an etcd under none.
func TestProgramsOfTheImage(t *testing.T) {
	for _, c := range []struct {
		command []string
		status  int
		says    string
	}{
		{[]string{"flanneld", "--help"}, 0, "--kube-subnet-mgr"},
		{[]string{"flannelctl", "--help"}, 0, "Usage:\n  flannelctl"},
		{[]string{"flanneld", "--embed-etcd=" + t.TempDir()}, 1, "--embed-etcd: this flanneld was built without an etcd"},
	} {
		cmd := exec.Command(programs(t)+c.command[0], c.command[1:]...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("%q: status %d, want %d and %q in\n%s", c.command, status, c.status, c.says, out)
		}
	}
}

// The Makefile builds the programs with the tags of the Dockerfile.
func TestProgramsHaveTheTagsOfTheImage(t *testing.T) {
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
	got, want := tags("Makefile", `(?m)^IMAGE_TAGS = (\S+)$`), tags("deploy/Dockerfile", ` -tags (\S+) `)
	if got != want {
		t.Errorf("the Makefile builds with the tags %s, the image with %s", got, want)
	}
}
