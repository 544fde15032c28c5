package linuxtest

import (
	"errors"
	"flag"
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

// Main is the TestMain of a package that makes hosts. Without root it runs the
// tests as root of a user namespace: the owner of a network namespace may
// change all of it.
func Main(m *testing.M) {
	if os.Geteuid() == 0 || os.Getenv(insideEnv) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin = os.Stdin
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		os.Exit(SkipAll(fmt.Sprintf("user namespaces are refused here (%v): run as root, or allow them", err)))
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// SkipAll reports one skipped test, with the reason, in place of all tests of a package that this machine refuses. It
// returns the exit status.
func SkipAll(reason string) int {
	flag.Parse()
	all := testing.InternalTest{Name: "TestInNamespaces", F: func(t *testing.T) { t.Skip(reason) }}
	if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{all}) {
		return 1
	}
	return 0
}

// newNamespace makes a network namespace that lives as long as its handle.
// Settings that it would inherit from the host get a fresh kernel's values.
func newNamespace() (netns.NsHandle, error) {
	made := make(chan error)
	ns := netns.None()
	go func() { // the thread is in the new namespace and ends with the goroutine
		runtime.LockOSThread()
		var err error
		ns, err = netns.New()
		if err == nil {
			err = setDefaults()
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return ns, errors.Join(fmt.Errorf("make network namespace: %w", err), closeNS(ns))
	}
	return ns, nil
}

// setDefaults acts on the network namespace of the thread.
func setDefaults() error {
	for _, scope := range []string{"all", "default"} {
		path := "/proc/sys/net/ipv4/conf/" + scope + "/promote_secondaries"
		if err := os.WriteFile(path, []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

func closeNS(ns netns.NsHandle) error {
	if !ns.IsOpen() {
		return nil
	}
	return ns.Close()
}
