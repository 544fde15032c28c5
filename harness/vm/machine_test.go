package vm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/harness/vm"
	"github.com/flanneld/flannel/harness/vm/wire"
)

// programEnv is the variable that names the guest's program. make test-vm builds the
// program and sets the variable.
const programEnv = "FLANNEL_LAB_VM"

// bootBound is the time that a machine has to boot on a busy host.
const bootBound = 3 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		os.Exit(hold())
	}
	os.Exit(m.Run())
}

// need skips a test where machines are not wanted, and returns the guest's program.
func need(t *testing.T) string {
	t.Helper()
	program := os.Getenv(programEnv)
	if program == "" {
		t.Skip("no virtual machine is wanted here: make test-vm boots one")
	}
	return program
}

// writer calls a function for each write.
type writer func()

func (w writer) Write(text []byte) (int, error) { w(); return len(text), nil }

// TestBootLimit checks that Boot gives up when its context ends.
func TestBootLimit(t *testing.T) {
	program := need(t)
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: program})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	wantConsole(t, err)
}

// hang stops the QEMU that a process started last, as if the guest's kernel hung.
func hang(t *testing.T, parent int, others []string) {
	t.Helper()
	machines := children(t, parent, "qemu")
	machines = slices.DeleteFunc(machines, func(pid string) bool { return slices.Contains(others, pid) })
	if len(machines) != 1 {
		t.Fatalf("process %d has the new machines %v, want one", parent, machines)
	}
	pid, err := strconv.Atoi(machines[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// TestSilentGuest checks that callers do not wait forever for a guest that hangs.
func TestSilentGuest(t *testing.T) {
	program := need(t)
	t.Parallel()
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	others := children(t, os.Getpid(), "qemu")
	ctx, cancel := context.WithTimeout(t.Context(), bootBound)
	defer cancel()
	m, err := vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: program, Silence: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	started := writer(func() { hang(t, os.Getpid(), others) })
	sleep := wire.Command{Args: []string{"sh", "-c", "echo started; exec sleep 1000"}}
	_, err = m.Run(t.Context(), sleep, started, os.Stderr)
	if !errors.Is(err, vm.ErrSilent) {
		t.Errorf("error %v, want %v", err, vm.ErrSilent)
	}
	wantConsole(t, err)
}

// TestLimitOfAGuestThatHangs checks that the limit of vm run also holds if the guest hangs.
func TestLimitOfAGuestThatHangs(t *testing.T) {
	program := need(t)
	t.Parallel()
	runtime.LockOSThread() // vm run ends with the thread that started it
	cmd := exec.Command(program, "run", "-limit", "3m", "--", program, "exec", "sh", "-c", "echo up; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the program ended before its machine was up: %v", err)
	}
	hang(t, cmd.Process.Pid, nil)
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "the machine ran for 3m0s") {
		t.Errorf("error %v, and it said %q", err, &said)
	}
}

// wantConsole checks that a crash kept the console, and removes it.
func wantConsole(t *testing.T, err error) {
	t.Helper()
	var crash *vm.Crash
	if !errors.As(err, &crash) {
		t.Errorf("error %v, want a crash", err)
		return
	}
	if err := os.Remove(crash.Console); err != nil {
		t.Errorf("the console is not kept: %v", err)
	}
}

// TestKilledParentLeavesNoMachine checks that QEMU ends with the program that started it,
// however that program ends.
func TestKilledParentLeavesNoMachine(t *testing.T) {
	program := need(t)
	runtime.LockOSThread() // vm run ends with the thread that started it
	cmd := exec.Command(program, "run", "--", "sh", "-c", "echo up; exec sleep 1000")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed program removes no files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the program ended before its machine was up: %v", err)
	}
	machines := children(t, cmd.Process.Pid, "qemu")
	if len(machines) != 1 {
		t.Fatalf("the program has the machines %v, want one", machines)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(10 * time.Second); running(machines[0]); {
		if time.Now().After(end) {
			t.Fatalf("QEMU, process %s, outlived the program that started it", machines[0])
		}
	}
}

// children lists the process ids of the children whose names have a prefix.
func children(t *testing.T, parent int, name string) (pids []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread may just have ended
		for _, pid := range strings.Fields(string(text)) {
			if comm, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.HasPrefix(string(comm), name) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// running reports whether a process exists and is not a zombie.
func running(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}
