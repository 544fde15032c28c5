package guest

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// root is where the machine's root file system is put together.
const root = "/new"

// mount is one call of mount(2).
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func mountAll(mounts ...mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return fmt.Errorf("make a folder to mount on: %w", err)
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s (%s) on %s: %w", m.source, m.kind, m.target, err)
		}
	}
	return nil
}

// mountEarly mounts the file systems that modules and this program's runtime need.
func mountEarly(Plan) error {
	return mountAll(
		mount{source: "dev", target: "/dev", kind: "devtmpfs"},
		mount{source: "proc", target: "/proc", kind: "proc"},
		mount{source: "sys", target: "/sys", kind: "sysfs"},
	)
}

// shared returns the options of a disk on the host. With cache=loose the guest reads
// each file once. It is the only writer, so it need not ask the host whether a file
// has changed.
func shared(options string) string {
	return options + "trans=virtio,version=9p2000.L,msize=524288,cache=loose"
}

// mountRoot puts a layer in memory over the host's root file system.
func mountRoot(Plan) error {
	err := mountAll(
		mount{source: RootTag, target: "/host", kind: "9p", flags: unix.MS_RDONLY, data: shared("")},
		mount{source: "memory", target: "/memory", kind: "tmpfs"},
	)
	if err != nil {
		return err
	}
	for _, dir := range []string{"/memory/upper", "/memory/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return mountAll(mount{source: "overlay", target: root, kind: "overlay",
		data: "lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work"})
}

// mountWritable mounts the folders that commands may change at the paths that
// they have on the host.
func mountWritable(p Plan) error {
	for i, dir := range p.Writable {
		target := filepath.Join(root, dir)
		err := mountAll(mount{source: WritableTag(i), target: target, kind: "9p", data: shared("access=any,")})
		if err != nil {
			return err
		}
	}
	return nil
}

// mountKernel mounts the kernel's own file systems, empty folders for volatile
// files, and the modules. A folder in memory covers /lib/modules, because the host's
// holds modules of the host's kernel.
func mountKernel(p Plan) error {
	lib, err := filepath.EvalSymlinks(root + "/usr/lib")
	if err != nil {
		return fmt.Errorf("find the folder for modules: %w", err)
	}
	modules := filepath.Join(lib, "modules")
	return mountAll(
		mount{source: "dev", target: root + "/dev", kind: "devtmpfs"},
		mount{source: "pts", target: root + "/dev/pts", kind: "devpts"},
		mount{source: "shm", target: root + "/dev/shm", kind: "tmpfs"},
		mount{source: "proc", target: root + "/proc", kind: "proc"},
		mount{source: "sys", target: root + "/sys", kind: "sysfs"},
		mount{source: "cgroup", target: root + "/sys/fs/cgroup", kind: "cgroup2"},
		mount{source: "run", target: root + "/run", kind: "tmpfs"},
		mount{source: "modules", target: modules, kind: "tmpfs"},
		mount{source: filepath.Join("/host", p.Modules), target: filepath.Join(modules, p.Release), flags: unix.MS_BIND},
	)
}

// enterRoot makes the new tree the root of all processes. It moves the tree's mount
// instead of only changing into it, because the kernel refuses user namespaces to a
// process in a changed root.
func enterRoot(Plan) error {
	err := os.Chdir(root)
	if err == nil {
		err = unix.Mount(".", "/", "", unix.MS_MOVE, "")
	}
	if err == nil {
		err = unix.Chroot(".")
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	return nil
}
