package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Group is the cgroups of several machines, which are removed when the program has ended,
// however it ends.
type Group struct {
	name        string // in each hierarchy
	hierarchies []hierarchy
	reaper      *exec.Cmd
	alive       io.WriteCloser // tells the reaper that the program has ended
}

// NewGroup makes cgroups. Their name consists of the given one and this process's id.
func NewGroup(name string) (*Group, error) {
	g := &Group{name: fmt.Sprintf("%s-%d", name, os.Getpid())}
	var err error
	g.hierarchies, err = hostHierarchies()
	if err != nil {
		return nil, err
	}
	var before string
	for _, h := range g.hierarchies {
		before += h.handedOut()
	}
	g.reaper = &exec.Cmd{Path: "/proc/self/exe", Args: []string{childReaper, g.name, before}, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	g.alive, err = g.reaper.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := g.reaper.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper of cgroups: %w", err)
	}
	for _, h := range g.hierarchies {
		if _, err := h.makeCgroup(g.name); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Close removes the cgroups. It waits for the end of their processes, but ends none.
func (g *Group) Close() error {
	_, err := g.alive.Write([]byte("closed")) // so the reaper does not wait for this program to end
	return errors.Join(err, g.alive.Close(), g.reaper.Wait())
}

// guestCgroups are the cgroups of a machine that has a guest for itself.
var guestCgroups = map[string]hierarchy{"/sys/fs/cgroup": {Path: "/sys/fs/cgroup"}}

// Dirs returns the folders of the cgroups, one in each hierarchy.
func (g *Group) Dirs() []string {
	var dirs []string
	for _, h := range g.hierarchies {
		dirs = append(dirs, filepath.Join(h.Path, g.name))
	}
	return dirs
}

// makeFor makes the cgroups of one machine, and returns their folders. Those of its former boot
// go first: in version 2 a cgroup that hands controllers to its children accepts no process.
func (g *Group) makeFor(machine string) (map[string]hierarchy, error) {
	dirs := map[string]hierarchy{}
	for _, h := range g.hierarchies {
		if err := removeCgroup(filepath.Join(h.Path, g.name, machine)); err != nil {
			return nil, err
		}
		dir, err := h.makeCgroup(filepath.Join(g.name, machine))
		if err != nil {
			return nil, fmt.Errorf("make its cgroups: %w", err)
		}
		dirs[dir] = h
	}
	return dirs, nil
}
