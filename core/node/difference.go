package node

import (
	"fmt"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// Difference describes the difference that a lane found between the desired state and
// the host at its last comparison.
type Difference struct {
	Lane     string    `json:"Lane"`
	LastLook time.Time `json:"LastLook"` // zero: none yet
	Lines    []Line    `json:"Lines"`
	Notes    []string  `json:"Notes"` // what keeps the lane from closing the difference
}

// Line is one object that is desired but missing, or present but not desired.
type Line struct {
	Sign   string `json:"Sign"`   // "+": desired and missing; "-": there and not desired
	Object string `json:"Object"` // in its canonical form
	Why    string `json:"Why"`    // why it is not changed; empty: it is about to be
}

// Differences returns the differences of the watched lanes. A lane without a
// difference has no lines and no notes.
func (n *Node) Differences() []Difference {
	var all []Difference
	for _, l := range n.lanes {
		if !l.part.watches() {
			continue
		}
		_, have := l.part.tables()
		d := Difference{Lane: l.id.String(), LastLook: l.lastLook}
		for _, op := range l.found {
			d.Lines = append(d.Lines, linesOf(op, have)...)
		}
		if l.id == HostLane {
			n.addStanding(&d)
		}
		if l.lookErr != nil {
			d.Notes = append(d.Notes, fmt.Sprintf("cannot read it: %v", l.lookErr))
		}
		for _, failure := range l.failures {
			d.Notes = append(d.Notes, failure.Error())
		}
		all = append(all, d)
	}
	return all
}

// linesOf describes an op as the lines of a difference.
func linesOf(op dataplane.Op, have *dataplane.State) []Line {
	if op.Verb == dataplane.Delete {
		return []Line{{Sign: "-", Object: op.Object.String()}}
	}
	var lines []Line
	if old, ok := have.Namesake(op.Object); ok && op.Verb == dataplane.Replace {
		lines = append(lines, Line{Sign: "-", Object: old.String()})
	}
	return append(lines, Line{Sign: "+", Object: op.Object.String()})
}

// addStanding adds the differences that the host keeps: objects that the kernel
// refuses, routes in conflict, and deletes that wait for the datastore.
func (n *Node) addStanding(d *Difference) {
	h := &n.host
	for _, subnet := range h.refusals.subnets() {
		was := h.refusals.of[subnet]
		d.Lines = append(d.Lines, Line{Sign: "+", Object: was.object.String(), Why: was.err.Error()})
	}
	for _, c := range h.conflicts {
		d.Lines = append(d.Lines, Line{Sign: "+", Object: c.Want.String(), Why: c.Error()})
	}
	for _, b := range h.guard.Beaten {
		d.Lines = append(d.Lines, Line{Sign: "-", Object: b.Foreign.String(), Why: b.Error()})
	}
	if h.withheld > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%d objects of departed peers are deleted once the datastore answers",
			h.withheld))
	}
}

// Tables are the desired and the observed state of a lane. Both are immutable, or
// nil while they are not known.
type Tables struct {
	Lane       string
	LastLook   time.Time // zero: none yet
	Want, Have *dataplane.State
}

// Tables returns the states of the watched lanes.
func (n *Node) Tables() []Tables {
	var all []Tables
	for _, l := range n.lanes {
		if l.part.watches() {
			want, have := l.part.tables()
			all = append(all, Tables{l.id.String(), l.lastLook, want, have})
		}
	}
	return all
}
