package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/harness/vm"
)

// hierarchy is a mounted hierarchy of cgroups.
type hierarchy struct {
	Path    string // where the host has mounted it
	Options string // how it is mounted, such as "cpu,cpuacct"; empty in version 2
}

// hierarchies returns the hierarchies of version 1 that have a controller or a name, or
// the one of version 2 if that has the controllers.
func hierarchies(mountinfo io.Reader) ([]hierarchy, error) {
	var first, second []hierarchy
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		before, after, found := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup":
			first = append(first, hierarchy{Path: fields[4], Options: controllers(kind[2])})
		case "cgroup2":
			second = append(second, hierarchy{Path: fields[4]})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(first) > 0 {
		return first, nil
	}
	if len(second) == 0 {
		return nil, errors.New("no cgroups are mounted on this machine")
	}
	return second[:1], nil
}

// controllers returns the mount options that only hierarchies have: their controllers and
// names.
func controllers(options string) string {
	var own []string
	for _, o := range strings.Split(options, ",") {
		if !slices.Contains([]string{"rw", "ro", "xattr", "clone_children"}, o) && !strings.HasPrefix(o, "release_agent=") {
			own = append(own, o)
		}
	}
	return strings.Join(own, ",")
}

// v2 reports whether the hierarchy is of version 2.
func (h hierarchy) v2() bool { return h.Options == "" }

// hostHierarchies returns the hierarchies of this machine.
func hostHierarchies() ([]hierarchy, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return hierarchies(file)
}

// makeCgroup makes a cgroup of that name in the hierarchy, and those above it, and
// returns its folder.
func (h hierarchy) makeCgroup(name string) (string, error) {
	dir := h.Path
	for part := range strings.SplitSeq(name, "/") {
		parent := dir
		dir = filepath.Join(parent, part)
		if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return "", err
		}
		if err := inherit(parent, dir); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// inherit prepares a new cgroup for processes: in version 1 it gets the CPUs of its
// parent, in version 2 all controllers.
func inherit(parent, dir string) error {
	if _, err := os.Stat(filepath.Join(parent, "cgroup.subtree_control")); err == nil {
		return delegate(parent)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delegate gives the children of a cgroup of version 2 all controllers.
func delegate(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	var enable []string
	for _, c := range strings.Fields(string(text)) {
		enable = append(enable, "+"+c)
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(strings.Join(enable, " ")), 0o644)
}

// joinCgroup moves this process to a cgroup.
func joinCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644)
}

// reapCgroups waits for the end of its input, which comes with the end of the test, and
// then removes the cgroups of that name. In version 2 it gives back the controllers that the test
// has handed out at the top: all but those that it is told. At last the folders of virtual machines go that no process
// uses.
func reapCgroups(in io.Reader, args []string) error {
	if len(args) != 2 || args[0] == "" {
		return errors.New("usage: NAME CONTROLLERS")
	}
	all, err := hostHierarchies()
	if err != nil {
		return err
	}
	parent := os.Getppid()
	said, _ := io.Copy(io.Discard, in) // a broken pipe ends the test, too
	if said == 0 {                     // it was killed, and may still hold the lock on its folder
		for deadline := time.Now().Add(10 * time.Second); os.Getppid() == parent && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, h := range all {
		err = errors.Join(err, removeCgroup(filepath.Join(h.Path, args[0])))
		if h.v2() {
			h.giveBack(strings.Fields(args[1]))
		}
	}
	if left := vm.Sweep(); left != nil {
		fmt.Fprintln(os.Stderr, left) // it says nothing of cgroups
	}
	return err
}

// handedOut returns the controllers that the top of a hierarchy of version 2 hands to its children.
func (h hierarchy) handedOut() string {
	if !h.v2() {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(h.Path, "cgroup.subtree_control"))
	return string(text)
}

// giveBack takes all controllers from the children of the top except some. The kernel refuses one that
// another program uses by now.
func (h hierarchy) giveBack(keep []string) {
	for _, c := range strings.Fields(h.handedOut()) {
		if !slices.Contains(keep, c) {
			_ = os.WriteFile(filepath.Join(h.Path, "cgroup.subtree_control"), []byte("-"+c), 0o644)
		}
	}
}

// removeCgroup removes a cgroup and all within it. It retries while their processes are ending.
func removeCgroup(dir string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := tryRemoveCgroup(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func tryRemoveCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if e := os.Remove(d); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove a cgroup: %w", e))
		}
	}
	return err
}
