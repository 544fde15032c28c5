package linux

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
)

// insideEnv marks a test binary that runs in a user namespace of its own.
const insideEnv = "FLANNEL_TEST_IN_USERNS"

// TestMain runs the tests as root of a user namespace if the caller is not
// root: whoever owns a network namespace may change all of it.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 || os.Getenv(insideEnv) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintf(os.Stderr, "cannot run in a user namespace: %v; run as root or allow unprivileged user namespaces\n", err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// newNamespace makes a network namespace that ends with the test.
func newNamespace(t testing.TB) netns.NsHandle {
	t.Helper()
	made := make(chan error)
	var ns netns.NsHandle
	go func() { // the thread is in the new namespace and ends with the goroutine
		runtime.LockOSThread()
		var err error
		ns, err = netns.New()
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}
