package backend

// Noter is a Backend that can tell an operator what it does differently on this
// host from what the config asks for. A note affects neither readiness nor peers.
type Noter interface {
	Notes(Env) []string
}
