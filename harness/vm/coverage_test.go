package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// covered matches a line of a coverage profile about statements that ran.
var covered = regexp.MustCompile(`(?m)^\S+/pace\.go:\S+ \d+ [1-9]\d*$`)

// TestCoverageComesOut runs the test of a package in a machine, as a user does. The coverage profile, which the test
// writes in the machine, is on the host afterwards.
func TestCoverageComesOut(t *testing.T) {
	program := need(t)
	t.Parallel()
	runtime.LockOSThread() // vm run ends with the thread that started it
	profile := filepath.Join(t.TempDir(), "profile")
	cmd := exec.Command(program, "run", "-limit", "10m", "--", "go", "test", "-vet=off", "-count=1", "-run", "^TestScale$",
		"-exec", program+" exec", "-coverprofile", profile, "github.com/flanneld/flannel/internal/pace")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	if !covered.Match(text) {
		t.Errorf("the profile is\n%s", text)
	}
}
