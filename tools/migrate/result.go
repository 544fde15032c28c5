package migrate

import (
	"fmt"
	"strings"

	"github.com/flanneld/flannel/tools/output"
)

// Outcome says what has happened to a key.
type Outcome string

// The outcomes.
const (
	Created  Outcome = "created"
	ToCreate Outcome = "to create" // in a dry run
	Same     Outcome = "same"
	Expired  Outcome = "expired"  // in the old store, in this moment
	OnlyNew  Outcome = "only new" // the old store does not have it
	Differs  Outcome = "differs"  // the new store keeps its own
	Invalid  Outcome = "invalid"  // no node can read it, so it is not copied
	Failed   Outcome = "failed"
)

// outcomes are all of them, in the order of the summary.
var outcomes = []Outcome{Created, ToCreate, Same, Expired, OnlyNew, Differs, Invalid, Failed}

// Key is one key and its outcome.
type Key struct {
	Key     string  `json:"Key"` // below the prefix
	Outcome Outcome `json:"Outcome"`
	Detail  string  `json:"Detail,omitempty"`
}

// Result is a run.
type Result struct {
	Keys []Key `json:"Keys"`
}

// bad reports whether an operator has to look at a key.
func (o Outcome) bad() bool { return o == Differs || o == Invalid || o == Failed }

// Trouble reports whether the two stores differ in what the old one has.
func (r *Result) Trouble() bool {
	for _, key := range r.Keys {
		if key.Outcome.bad() {
			return true
		}
	}
	return false
}

// Text prints a line for each key, and a summary.
func (r *Result) Text(p *output.Page) {
	counts := map[Outcome]int{}
	var rows [][]output.Cell
	for _, key := range r.Keys {
		counts[key.Outcome]++
		cell := output.Good(string(key.Outcome))
		if key.Outcome.bad() {
			cell = output.Bad(string(key.Outcome))
		}
		rows = append(rows, []output.Cell{cell, output.Plain(key.Key), output.Plain(key.Detail)})
	}
	p.Table(output.Row("OUTCOME", "KEY", "DETAIL"), rows...)
	var summary []string
	for _, outcome := range outcomes {
		if counts[outcome] > 0 {
			summary = append(summary, fmt.Sprintf("%d %s", counts[outcome], outcome))
		}
	}
	p.Line(output.Plain(strings.Join(summary, ", ")))
}
