package daemon

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// waits makes this program wait for the end of its input, instead of running tests.
const waits = "TEST_WAITS_FOR_INPUT"

func TestMain(m *testing.M) {
	if os.Getenv(waits) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// TestProcesses finds daemons by each of their names. A release may name its program
// after the architecture.
func TestProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"flanneld": true, "flanneld-amd64": true, "flannel": false} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), name)
			if err := os.Symlink(self, program); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), waits+"=yes")
			input, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = input.Close()
				_ = cmd.Wait()
			}()
			ids, err := Processes()
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(ids, cmd.Process.Pid); got != want {
				t.Errorf("among the daemons: %t, want %t", got, want)
			}
		})
	}
}
