package harness

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// The names under which this program runs itself as a helper of the lab.
const (
	childStore = "flannel-lab-store"
	childPause = "flannel-lab-pause"

	childConfined = "flannel-lab-confined"
	childNoTUN    = "flannel-lab-no-tun"
	childOwnSys   = "flannel-lab-own-sys"
)

// child returns the program behind one of those names, or nil for any other.
func child(name string) func(args []string) error {
	switch name {
	case childStore:
		return serveStore
	case childPause:
		return pause
	case childConfined:
		return confine
	case childNoTUN:
		return withoutTUN
	case childOwnSys:
		return withOwnSys
	}
	return nil
}

// childCommand returns a command that runs this program as the child of that
// name.
func childCommand(name string, args ...string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{name}, args...), Env: os.Environ()}
}

// pause keeps a namespace enterable by process id until a signal ends it.
func pause([]string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	return nil
}
