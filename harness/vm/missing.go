package vm

import (
	"fmt"
	"os/exec"
)

// Missing says that this host lacks something that machines need, and what to do.
type Missing struct{ What, Remedy string }

// Error implements error.
func (m *Missing) Error() string { return fmt.Sprintf("%s is missing: %s", m.What, m.Remedy) }

// qemu is the program that emulates a machine.
const qemu = "qemu-system-x86_64"

// packages holds the Debian package of each program that machines need. The guest
// finds modprobe in the host's root file system.
var packages = [][2]string{
	{qemu, "qemu-system-x86"},
	{"depmod", "kmod"},
	{"modprobe", "kmod"},
	{"xz", "xz-utils"},
}

// program returns the path of a program, even if only root has it in PATH.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if err == nil {
			return path, nil
		}
		path, err = exec.LookPath(dir + name)
	}
	return path, err
}

// Check reports the first program that machines need and this host lacks.
func Check() error {
	for _, p := range packages {
		if _, err := program(p[0]); err != nil {
			return &Missing{What: p[0], Remedy: "as root: apt-get install " + p[1] + " (make deps installs all)"}
		}
	}
	return nil
}
