package vm_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/flanneld/flannel/harness/vm"
)

// holdEnv is set for a process that holds a folder until it is killed.
const holdEnv = "FLANNEL_TEST_HOLD_SCRATCH"

// hold makes a folder, prints its name and waits for its end.
func hold() int {
	s, err := vm.NewScratch()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.Dir)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // nothing comes
	return 0
}

// holdScratch starts a process that holds a folder with a file, and returns its end.
func holdScratch(t *testing.T) (dir string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"=yes")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill() // may have been killed
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir = strings.TrimSpace(line)
	if err := os.WriteFile(dir+"/console.log", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, kill
}

// TestNewScratch checks that a new folder removes the one of a killed process, and none that
// a process holds.
func TestNewScratch(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, _ := holdScratch(t)
	dead, kill := holdScratch(t)
	kill()
	s, err := vm.NewScratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the folder of a killed process is still there (%v)", err)
	}
	if _, err := os.Stat(alive + "/console.log"); err != nil {
		t.Errorf("the folder of a running process: %v", err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("the removed folder is still there (%v)", err)
	}
}
