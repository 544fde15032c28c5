package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

const (
	// stageEnv marks a process that is in the lab's own mount namespace.
	stageEnv = "FLANNEL_LAB_STAGE"
	// usernsEnv set to 1 makes root use a user namespace as other users do.
	usernsEnv = "FLANNEL_LAB_USERNS"
	// scratch is covered by a file system of the lab's own, which the kernel
	// frees with the lab's last process.
	scratch = "/dev/shm"
	// lockVariable is the variable that names the lock of iptables-legacy.
	lockVariable = "XTABLES_LOCKFILE"
)

// Main is the TestMain of a package that builds labs:
//
//	func TestMain(m *testing.M) { harness.Main(m) }
//
// An ordinary user whom the kernel refuses user namespaces has all tests of the package skipped.
func Main(m interface{ Run() int }) {
	if err := enter(); err != nil {
		os.Exit(linuxtest.SkipAll(err.Error()))
	}
	os.Exit(m.Run())
}

// MainWithout is Main of a package with tests that need no lab. Where there can be none they run all the same, and the
// others ask [Refused] and skip.
func MainWithout(m interface{ Run() int }) {
	refused = enter()
	os.Exit(m.Run())
}

// refused says why this process can build no lab.
var refused error

// Refused says why a program with [MainWithout] can build no lab; nil: it can.
func Refused() error { return refused }

// enter is Reexec that returns if an ordinary user is refused namespaces.
func enter() error {
	if child(os.Args[0]) == nil && os.Getenv(stageEnv) == "" && os.Geteuid() != 0 {
		status, err := runAgain()
		if err != nil {
			return err
		}
		os.Exit(status)
	}
	Reexec()
	return nil
}

// Reexec moves the program into namespaces in which it may build labs. It must be
// called first in main, before any flag is read. It runs the program again in a
// mount and a network namespace, for users other than root also in a user
// namespace, and does not return in the first run. The lab's helper processes
// begin with it, too.
//
// The network namespace protects the host's own. Besides, a thread that entered a
// namespace of the lab must be able to come back, and from a user namespace it
// could not come back to the host's.
func Reexec() {
	if run := child(os.Args[0]); run != nil {
		exitOn(run(os.Args[1:]))
	}
	if os.Getenv(stageEnv) == "" {
		status, err := runAgain()
		if err != nil {
			exitOn(err)
		}
		os.Exit(status)
	}
	if err := settle(); err != nil {
		exitOn(err)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAgain runs this program once more, in namespaces of its own, and returns
// its exit status.
func runAgain() (int, error) {
	// The kernel kills the child when this thread ends, so the thread must
	// stay.
	runtime.LockOSThread()
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: os.Args, Env: append(os.Environ(), stageEnv+"=1"),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL},
	}
	userns := os.Geteuid() != 0 || os.Getenv(usernsEnv) == "1"
	if userns {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return 0, explain(err, userns)
	}
	go forward(signals, cmd.Process)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for the program in its namespaces: %w", err)
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// forward passes signals on. The child already has a Ctrl-C: the terminal sends
// it to both.
func forward(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		if s != syscall.SIGINT {
			_ = to.Signal(s) // the child may just have ended
		}
	}
}

// explain adds the remedy to an error about refused namespaces.
func explain(err error, userns bool) error {
	if !slices.ContainsFunc([]error{unix.EPERM, unix.EACCES, unix.ENOSPC, unix.EINVAL, unix.ENOSYS},
		func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("run the program in its namespaces: %w", err)
	}
	if !userns {
		return fmt.Errorf("root is refused a mount namespace here (%w): "+
			"a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
	}
	return fmt.Errorf("user namespaces are refused here (%w): run as root, or allow them "+
		"(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "+
		"kernel.apparmor_restrict_unprivileged_userns)", err)
}

// settle prepares the namespaces: no mount made here shows outside.
func settle() error {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if errors.Is(err, unix.EINVAL) {
		return errors.New("the root of this chroot is no mount point, so mounts here would show outside: before chroot, " +
			"mount --bind its directory on itself")
	}
	if err == nil {
		err = unix.Mount("flannel-lab", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700")
	}
	if err != nil {
		return explain(fmt.Errorf("mount a scratch file system on %s: %w", scratch, err), !initialUserns())
	}
	if err := os.Setenv(lockVariable, filepath.Join(scratch, "xtables.lock")); err != nil {
		return fmt.Errorf("give iptables a lock of the lab's own: %w", err) // users may not open that in /run
	}
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	if err != nil {
		return fmt.Errorf("set the loopback device up: %w", err)
	}
	return nil
}

// initialUserns reports whether this process is in the machine's first user
// namespace, the only one that maps every id.
func initialUserns() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	var inside, outside, size uint64
	if err == nil {
		_, err = fmt.Sscan(string(text), &inside, &outside, &size)
	}
	return err == nil && inside == 0 && outside == 0 && size == 1<<32-1
}
