package backend

import (
	"github.com/flanneld/flannel/core/dataplane"
)

// Noter is a Backend that can say where it departs from the config because of this
// host. A note affects neither readiness nor peers.
type Noter interface {
	Notes(Env) []string
}

// Checker is a Backend that knows when the kernel will refuse objects of the
// node's own device.
type Checker interface {
	// Check returns nil if nothing is known to be missing on this host.
	Check(Env) *Lack
}

// ChecksumAdapter is a Backend that can make the kernel compute checksums instead of the
// network card.
type ChecksumAdapter interface {
	// AdaptsChecksums reports whether Render follows [Env.TxChecksum].
	AdaptsChecksums() bool
}

// Asider is a Backend that can stand beside another one of its type which needs the same devices.
type Asider interface {
	// Aside returns the backend with devices of other names, or false if it cannot.
	Aside() (Backend, bool)

	// Renamings returns the names that its devices may have had: beside another one, or alone.
	Renamings() []dataplane.Renaming
}

// Lack is a requirement of a device that the host does not meet. The node names
// it as the reason when the kernel refuses an object on that device.
type Lack struct {
	Link string
	Err  error // what is missing, and the remedy
}

// Commander is a Backend that runs the operator's commands.
type Commander interface {
	// Prepare returns the commands that must run before the node asks for a lease.
	Prepare() *dataplane.State
	// Undo returns the text that undoes the command of a departed peer.
	Undo() string
	// Mentions reports whether a command has the name of a device as a word.
	Mentions(device string) bool
}
