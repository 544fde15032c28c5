package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The places where a machine finds this program and keeps its daemons' logs.
const (
	SelfPath = "/opt/machine/self"
	logDir   = "/var/log/machine"
)

// plan tells the first process how to build the machine.
type plan struct {
	Name     string
	Disk     string            // the folder that keeps the machine's files across reboots
	Root     string            // an empty folder to build its root in
	Binds    map[string]string // what it sees at which place
	Kept     []string          // see Options.Kept
	Settings map[string]string
	Path     []string
	Cgroups  map[string]hierarchy
	Forward  bool
	Network  bool // its network namespace is that of networkFD
}

// networkFD is the first of the files that a command passes on.
const networkFD = 3

// emptied are the folders that a boot finds empty.
var emptied = []string{"/run", "/tmp"}

// enter makes this process, which is in new namespaces, the first process of a machine.
// Its argument is the plan.
func enter(args []string) error {
	runtime.LockOSThread() // such a namespace belongs to a thread, until the thread runs a program
	if len(args) != 1 {
		return errors.New("usage: PLAN")
	}
	var p plan
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return err
	}
	for dir := range p.Cgroups {
		if err := joinCgroup(dir); err != nil {
			return fmt.Errorf("join the machine's cgroups: %w", err)
		}
	}
	steps := []func() error{
		p.enterNetwork,
		func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) },
		func() error { return unix.Sethostname([]byte(p.Name)) },
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		p.mountRoot, p.mountSystem, p.mountCgroups, p.mountFiles, p.pivot, p.coverSettings, p.forward,
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("prepare the machine, step %d: %w", i+1, err)
		}
	}
	path := append(p.Path[:len(p.Path):len(p.Path)], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	return syscall.Exec(SelfPath, []string{childInit}, []string{"HOME=/root", "PATH=" + strings.Join(path, ":")})
}

// enterNetwork joins the network namespace that the command has passed on, if any.
func (p plan) enterNetwork() error {
	if !p.Network {
		return nil
	}
	return errors.Join(unix.Setns(networkFD, unix.CLONE_NEWNET), unix.Close(networkFD))
}

// mountRoot mounts a layer for the machine's files over the host's root.
func (p plan) mountRoot() error {
	upper, work := filepath.Join(p.Disk, "upper"), filepath.Join(p.Disk, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755), os.MkdirAll(p.Root, 0o755)); err != nil {
		return err
	}
	return mount("overlay", p.Root, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work)
}

// mountSystem mounts the file systems that every system has.
func (p plan) mountSystem() error {
	err := errors.Join(
		mount("proc", p.Root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("sysfs", p.Root+"/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""),
		mount("devtmpfs", p.Root+"/dev", "devtmpfs", unix.MS_NOSUID, ""),
		mount("devpts", p.Root+"/dev/pts", "devpts", unix.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620,gid=5"),
		mount("tmpfs", p.Root+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""),
	)
	for _, dir := range emptied {
		err = errors.Join(err, mount("tmpfs", p.Root+dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
	}
	return err
}

// mountCgroups shows the machine its own cgroups as the root ones.
func (p plan) mountCgroups() error {
	top := p.Root + "/sys/fs/cgroup"
	for dir, h := range p.Cgroups {
		if !h.v2() {
			continue
		}
		if err := mount("cgroup", top, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return err
		}
		// A cgroup that has processes may not hand controllers to its children.
		first := filepath.Join(dir, "init")
		return errors.Join(os.MkdirAll(first, 0o755), joinCgroup(first), delegate(dir))
	}
	if err := mount("cgroup", top, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
		return err
	}
	for _, h := range p.Cgroups {
		if err := mount("cgroup", filepath.Join(top, filepath.Base(h.Path)), "cgroup",
			unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.Options); err != nil {
			return err
		}
	}
	return nil
}

// mountFiles puts the disk's folders and the files of others in place.
func (p plan) mountFiles() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	binds := map[string]string{self: SelfPath}
	for _, dir := range append(p.Kept[:len(p.Kept):len(p.Kept)], logDir) {
		source := keptPath(p.Disk, dir)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return err
		}
		binds[source] = dir
	}
	for source, target := range p.Binds {
		binds[source] = target
	}
	for source, target := range binds {
		if err := bind(source, p.Root+target); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the machine's root the root of this process. Containers that ask for it see
// mounts in it.
func (p plan) pivot() error {
	old := filepath.Join(p.Root, "run/former")
	if err := os.MkdirAll(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(p.Root, old); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	return errors.Join(os.Chdir("/"), unix.Unmount("/run/former", unix.MNT_DETACH), os.Remove("/run/former"),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}

// coverSettings covers the settings.
func (p plan) coverSettings() error {
	for name, value := range p.Settings {
		file := filepath.Join("/run/settings", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o644),
			bind(file, filepath.Join("/proc/sys", name))); err != nil {
			return err
		}
	}
	return nil
}

// forward lets the machine forward packets, which affects only its own namespace.
func (p plan) forward() error {
	if !p.Forward {
		return nil
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding",
		"net/bridge/bridge-nf-call-iptables"} {
		err := os.WriteFile(filepath.Join("/proc/sys", name), []byte("1"), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// keptPath returns where a disk has a folder that Options.Kept names.
func keptPath(disk, dir string) string { return filepath.Join(disk, "kept", dir) }

// mount mounts a file system on a folder, which it makes first.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
	return nil
}

// bind shows a file or folder at another place.
func bind(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, missing := os.Stat(target); missing != nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, nil, 0o644))
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, target, err)
	}
	return nil
}
