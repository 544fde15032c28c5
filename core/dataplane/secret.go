package dataplane

import "strings"

// SecretName names something that a node keeps to itself across restarts, such
// as a private key. An object names its secret and never holds it, so a State, a
// dump or a log cannot show one. The driver fetches it by name.
type SecretName string

// Valid reports whether the name can be part of a file's name: lower-case
// letters, digits and dashes, 1 to 64 of them.
func (n SecretName) Valid() bool {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-"
	return n != "" && len(n) <= 64 && strings.Trim(string(n), allowed) == ""
}
