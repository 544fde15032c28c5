// Package scenarios replays topologies with faults on two worlds: the
// simulator, in virtual time, and network namespaces, with real daemons on the
// real kernel.
//
// A scenario is a .txt file in the form of github.com/cockroachdb/datadriven:
// a command, its arguments, "----", the expected output. The language is
// described in docs/scenarios.md; each verb is one function here. What a verb
// needs of a world is in the [World] interface, and a verb may not know which
// world it is in.
//
// Expected output holds nothing that depends on timing or chance, so that one
// file is true in both worlds. A block marked only=sim or only=netns is for
// that world alone; elsewhere it is skipped and counted as skipped.
package scenarios
