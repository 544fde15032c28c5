package vm_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// TestSweepLeavesOthers checks that a sweep removes nothing that is no folder, is another user's or is on another file
// system, as the folder of the program that runs a virtual machine is in the machine.
func TestSweepLeavesOthers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	pipe, file := dir+"/flannel-vm.pipe", dir+"/flannel-vm.file"
	own := dir + "/flannel-vm.own"
	left := []string{pipe, file}
	err := errors.Join(unix.Mkfifo(pipe, 0o600), os.WriteFile(file, nil, 0o600), os.Mkdir(own, 0o700))
	if os.Geteuid() == 0 {
		another, mounted := dir+"/flannel-vm.another", dir+"/flannel-vm.mounted"
		err = errors.Join(err, os.Mkdir(another, 0o700), os.Chown(another, 65532, 65532),
			os.Mkdir(mounted, 0o700), unix.Mount("scratch", mounted, "tmpfs", 0, ""),
			os.WriteFile(mounted+"/socket", nil, 0o600))
		t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
		left = append(left, another, mounted+"/socket")
	}
	if err := errors.Join(err, vm.Sweep()); err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(own); !os.IsNotExist(err) {
		t.Errorf("a folder that no process holds is still there (%v)", err)
	}
}
