package machine

import (
	"fmt"
	"os"
)

// The names under which this program runs itself as a part of a machine.
const (
	childEnter  = "flannel-machine"
	childInit   = "flannel-machine-init"
	childReaper = "flannel-machine-reaper"
)

// Child returns the part of a machine behind one of those names, or nil for any other.
func Child(name string) func(args []string) error {
	switch name {
	case childEnter:
		return enter
	case childInit:
		return func([]string) error { return serveInit(os.Stdin, os.Stdout, logDir) }
	case childReaper:
		return func(args []string) error { return reapCgroups(os.Stdin, args) }
	}
	return nil
}

// RunChild runs a part of a machine, and ends this program with it. It returns if there is none.
func RunChild(part func(args []string) error) {
	if part == nil {
		return
	}
	if err := part(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}
