package dockerlab

import (
	"os"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/internal/machine"
)

// Main is the TestMain of a package that runs engines.
func Main(m interface{ Run() int }) {
	Reexec()
	os.Exit(m.Run())
}

// Reexec must be called first in main. It runs those parts of an engine's machine that
// are this program, and moves any other run into namespaces in which a lab may be built.
func Reexec() {
	machine.RunChild(machine.Child(os.Args[0]))
	harness.Reexec()
}
