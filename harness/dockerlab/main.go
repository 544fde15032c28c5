package dockerlab

import (
	"fmt"
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
	run := machine.Child(os.Args[0])
	if run == nil {
		harness.Reexec()
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}
