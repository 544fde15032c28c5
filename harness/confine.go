package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// podCapabilities are the capabilities that the manifest gives the daemon.
var podCapabilities = []int{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW}

// through returns a command that runs another command through a child of this program
// which limits it, such as [confine].
func through(child string, cmd *exec.Cmd) *exec.Cmd {
	inner := *cmd
	inner.Path = "/proc/self/exe"
	inner.Args = append([]string{child, cmd.Path}, cmd.Args...)
	return &inner
}

// withoutTUN replaces this process with the program args[0] and its arguments, without /dev/net/tun.
func withoutTUN(args []string) error {
	runtime.LockOSThread()
	if len(args) < 2 {
		return fmt.Errorf("run %q without /dev/net/tun: want a path and arguments", args)
	}
	if err := errors.Join(ownMounts(), coverTUN()); err != nil {
		return fmt.Errorf("run %s without /dev/net/tun: %w", args[0], err)
	}
	return fmt.Errorf("run %s without /dev/net/tun: exec: %w", args[0], syscall.Exec(args[0], args[1:], os.Environ()))
}

// withOwnSys replaces this process with the program args[0] and its arguments, with a /sys of this
// network namespace: a mount shows the links of the namespace in which it was made.
func withOwnSys(args []string) error {
	runtime.LockOSThread()
	if len(args) < 2 {
		return fmt.Errorf("run %q with its own /sys: want a path and arguments", args)
	}
	err := ownMounts()
	if err == nil {
		err = unix.Mount("flannel-lab", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("run %s with its own /sys: %w", args[0], err)
	}
	return fmt.Errorf("run %s with its own /sys: exec: %w", args[0], syscall.Exec(args[0], args[1:], os.Environ()))
}

// confine replaces this process with the program args[0] and its arguments, with
// the rights that a container runtime would leave it: two capabilities and no way
// to gain more, a read-only root and /proc/sys, no devices. The lab's files, on a
// file system of their own, stay writable like the host paths of a pod.
func confine(args []string) error {
	// Namespaces and capabilities belong to a thread; exec keeps this thread's.
	runtime.LockOSThread()
	if len(args) < 2 {
		return fmt.Errorf("confine %q: want a path and arguments", args)
	}
	if err := confineFiles(); err != nil {
		return fmt.Errorf("confine %s: %w", args[0], err)
	}
	if err := confineRights(); err != nil {
		return fmt.Errorf("confine %s: %w", args[0], err)
	}
	return fmt.Errorf("confine %s: exec: %w", args[0], syscall.Exec(args[0], args[1:], os.Environ()))
}

func confineFiles() error {
	if err := ownMounts(); err != nil {
		return err
	}
	for _, path := range []string{"/proc/sys", "/"} {
		if err := readOnly(path); err != nil {
			return fmt.Errorf("make %s read-only: %w", path, err)
		}
	}
	return coverTUN()
}

// ownMounts gives the thread mounts of its own.
func ownMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare the mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	return nil
}

// coverTUN hides /dev/net/tun from this thread.
func coverTUN() error {
	err := unix.Mount("flannel-lab", "/dev/net", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cover /dev/net: %w", err)
	}
	return nil
}

// readOnly makes a tree read-only, except mounts below it.
func readOnly(path string) error {
	var flags unix.Statfs_t
	if err := unix.Statfs(path, &flags); err != nil {
		return err
	}
	// In a user namespace these flags must not change. The kernel has the same
	// bits for both calls.
	kept := uintptr(flags.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME)
	if flags.Flags&unix.ST_RELATIME != 0 {
		kept |= unix.MS_RELATIME
	}
	if path != "/" { // already a mount
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	return unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, "")
}

func confineRights() error {
	// No process gets a capability outside the bounding set, not even root by
	// exec.
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if slices.Contains(podCapabilities, c) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil &&
			!errors.Is(err, unix.EINVAL) { // the kernel lacks this capability
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	var sets [2]unix.CapUserData
	for _, c := range podCapabilities {
		sets[c/32].Permitted |= 1 << (c % 32)
		sets[c/32].Effective |= 1 << (c % 32)
	}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("refuse new privileges: %w", err)
	}
	return nil
}
