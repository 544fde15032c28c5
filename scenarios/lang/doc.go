// Package lang is the language of scenarios.
//
// A scenario is a .txt file in the form of github.com/cockroachdb/datadriven: a
// command, its arguments, "----", the expected output. docs/scenarios.md
// describes the language; each verb is one function here. A [Session] replays
// one scenario in one [World].
//
// The language imports neither world. A verb asks a world, node or store for
// the small interface that it needs, with able. If the world lacks it, the error
// names the world and the interface.
//
// Expected output holds nothing that depends on timing or chance, so that one
// file is true in both worlds. A block marked only=sim or only=netns is for
// that world alone; elsewhere it is skipped and counted as skipped.
package lang
