// Package buildversion returns the version of the running program.
package buildversion

import "runtime/debug"

// Version returns the version of the module, or of its commit.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown version)"
}
