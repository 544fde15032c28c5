// Package outcome defines how a spec's result travels through the output of "go
// test -json": package suite writes it as an attribute of the test that ran the
// suite, and hack/testsum reads it. The package runs nothing itself.
package outcome

import "strings"

// KeyPrefix begins the name of an attribute that carries an outcome.
const KeyPrefix = "spec-"

// The states of an [Outcome].
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped"
)

// The reasons of a scenario's skip on every kernel. Without one of them, some kernel has to run the scenario.
const (
	SimulatorOnly = "its faults exist only in the simulator"
	TooLong       = "it takes many minutes on a kernel: one plays it only by its name"
)

// ForTestAll is the reason of tests that make test leaves out. A summary counts them and does not name them.
const ForTestAll = "left to make test-all"

// Outcome says how one spec ended.
type Outcome struct {
	State  string // Passed, Failed or Skipped
	Name   string
	Reason string // of a skip
}

// Encode returns one line, as an attribute must be. It has no blanks at its
// end, because go test would remove them.
func (o Outcome) Encode() string {
	return strings.TrimSpace(strings.Join([]string{o.State, words(o.Name), words(o.Reason)}, "\t"))
}

// Decode reads an attribute of a test; false if it is not a spec's outcome.
func Decode(key, value string) (Outcome, bool) {
	state, rest, ok := strings.Cut(value, "\t")
	if !ok || !strings.HasPrefix(key, KeyPrefix) {
		return Outcome{}, false
	}
	name, reason, _ := strings.Cut(rest, "\t")
	return Outcome{State: state, Name: name, Reason: reason}, true
}

// words puts text on one line without tabs.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }
