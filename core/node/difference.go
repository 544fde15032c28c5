package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/command"
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
		d.Lines = linesOf(l.found, have)
		if l.id == HostLane {
			n.addStanding(&d)
		}
		if l.lookErr != nil {
			d.Notes = append(d.Notes, fmt.Sprintf("cannot read it: %v", l.lookErr))
		}
		for _, failure := range l.failures {
			text, _ := command.Split(failure)
			d.Notes = append(d.Notes, text)
		}
		all = append(all, d)
	}
	return all
}

// Public returns the difference as every local user may read it: commands are without their texts.
func (d Difference) Public() Difference {
	lines := slices.Clone(d.Lines)
	for i, l := range lines {
		if !strings.HasPrefix(l.Object, "command ") {
			continue
		}
		lines[i].Object = "command"
		o, err := dataplane.ParseObject(l.Object)
		if c, is := o.(dataplane.Command); is && err == nil {
			lines[i].Object = c.WithoutTexts().String()
		}
	}
	d.Lines = lines
	return d
}

// linesOf describes the ops of the last comparison as the lines of a difference. The host may have been read again
// since, so it leaves out what that look shows closed. It also leaves out an object that is as desired, and is
// made again only because its device is. A renamed device is one that is missing under its new name.
func linesOf(ops []dataplane.Op, have *dataplane.State) []Line {
	var lines []Line
	shown := map[dataplane.Object]bool{}
	for _, op := range ops {
		if l, is := op.Object.(dataplane.Link); is && l.Was != "" {
			l.Was = ""
			op.Object = l
		}
		old, exists := have.Namesake(op.Object)
		if exists && !shown[old] {
			if op.Verb != dataplane.Delete && old == op.Object || deletesElsewhere(op, old) {
				continue
			}
			lines = append(lines, Line{Sign: "-", Object: old.String()})
			shown[old] = true
		}
		if op.Verb != dataplane.Delete {
			lines = append(lines, Line{Sign: "+", Object: op.Object.String()})
		}
	}
	return lines
}

// deletesElsewhere reports whether an op deletes a route from a renamed device, to which the route of the former
// name belongs.
func deletesElsewhere(op dataplane.Op, old dataplane.Object) bool {
	return op.Verb == dataplane.Delete && linkOf(old) != linkOf(op.Object)
}

// addStanding adds the differences that the host keeps: objects that the kernel
// refuses, routes in conflict, and deletes that wait for the datastore.
func (n *Node) addStanding(d *Difference) {
	h := &n.host
	stands := func(sign string, o dataplane.Object, why error) {
		have, exists := h.have.Namesake(o)
		if (exists && have == o) == (sign == "-") { // as of the last look
			d.Lines = append(d.Lines, Line{Sign: sign, Object: o.String(), Why: reasonOf(why, o)})
		}
	}
	for _, subnet := range h.refusals.subnets() {
		was := h.refusals.of[subnet]
		stands("+", was.object, was.err)
	}
	for _, c := range h.conflicts {
		stands("+", c.Want, c)
	}
	for _, b := range h.guard.Beaten {
		stands("-", b.Foreign, b)
	}
	if h.withheld > 0 {
		d.Notes = append(d.Notes, fmt.Sprintf("%d objects of departed peers are deleted once the datastore answers",
			h.withheld))
	}
}

// reasonOf returns the text of an error about an object without the object, which the line names.
func reasonOf(err error, o dataplane.Object) string {
	text := err.Error()
	verb, reason, ok := strings.Cut(text, o.String())
	if !ok || strings.Contains(verb, ":") {
		return text
	}
	return strings.TrimLeft(reason, ": ")
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
