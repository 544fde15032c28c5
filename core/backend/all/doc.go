// Package all chooses a backend by the type a network config names. It is the
// only place that lists them.
package all
