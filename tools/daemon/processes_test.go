package daemon

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// waits makes this program wait for the end of its input, instead of running tests.
const waits = "TEST_WAITS_FOR_INPUT"

// asOther says that the process is that of another user.
const asOther = "TEST_AS_OTHER_USER"

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
			if err != nil && !errors.Is(err, fs.ErrPermission) { // another user's flanneld may run on this machine
				t.Fatal(err)
			}
			if got := slices.Contains(ids, cmd.Process.Pid); got != want {
				t.Errorf("among the daemons: %t, want %t", got, want)
			}
		})
	}
}

// TestHiddenProcesses looks for a daemon of root as another user, who may not see its network namespace.
func TestHiddenProcesses(t *testing.T) {
	if os.Getenv(asOther) != "" {
		ids, err := Processes()
		if len(ids) != 0 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v, %v", ids, err)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may start a process of another user")
	}
	self := "/proc/self/exe"
	if err := os.Chmod(self, 0o755); err != nil { // the umask may have made it root's alone
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "flanneld")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(name)
	daemon.Env = append(os.Environ(), waits+"=yes")
	input, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = input.Close()
		_ = daemon.Wait()
	}()
	other := exec.Command(self, "-test.run=^TestHiddenProcesses$")
	other.Env = append(os.Environ(), asOther+"=yes")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
