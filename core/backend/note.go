package backend

// Noter is a Backend that can tell an operator where this host makes it depart
// from the config. A note affects neither readiness nor peers.
type Noter interface {
	Notes(Env) []string
}
