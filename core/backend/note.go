package backend

// Noter is a Backend that can tell an operator where this host makes it depart
// from the config. A note affects neither readiness nor peers.
type Noter interface {
	Notes(Env) []string
}

// Checker is a Backend that knows when the kernel must refuse objects of the
// node's own device.
type Checker interface {
	// Check returns nil if nothing is known to be missing on this host.
	Check(Env) *Lack
}

// Lack is a requirement of a device that the host does not meet. The node names
// it as the reason when the kernel refuses an object on that device.
type Lack struct {
	Link string
	Err  error // what is missing, and the remedy
}
