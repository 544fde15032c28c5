// Package diff shows the difference between the state that a daemon desires and the
// state of its host.
package diff

import (
	"slices"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/output"
)

// Result is the difference of all lanes.
type Result control.Diff

// Trouble reports whether there is a difference.
func (r Result) Trouble() bool {
	return slices.ContainsFunc(r.Lanes, func(d node.Difference) bool { return len(d.Lines)+len(d.Notes) > 0 })
}

// Text writes one line for each object: + for one that is desired and missing, - for
// one that is there and not desired. It writes nothing if there is no difference.
func (r Result) Text(p *output.Page) {
	for _, lane := range r.Lanes {
		for _, l := range lane.Lines {
			text := l.Sign + " " + l.Object
			if l.Why != "" {
				text += "  # " + l.Why
			}
			mark := output.Good
			if l.Sign == "-" {
				mark = output.Bad
			}
			p.Line(mark(text))
		}
		for _, note := range lane.Notes {
			p.Sentence(output.Warn("# " + lane.Lane + ": " + note))
		}
	}
}
