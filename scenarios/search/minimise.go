package search

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/internal/complaint"
	"github.com/flanneld/flannel/scenarios/lang"
)

// Symptom returns the part of a failure that stays the same while its plan
// shrinks: the sentence without numbers, names of nodes and details.
func Symptom(failed string) string {
	text := complaint.Of(failed)
	return text[:min(len(text), 50)]
}

// Minimise returns a plan that still fails, with as few faults, nodes and
// waits as can be found by leaving things out one after the other (delta
// debugging, Zeller 2002). Tried is called before each run.
func Minimise(p Plan, fails func(Plan) bool, tried func(Plan)) Plan {
	m := minimiser{fails: func(c Plan) bool {
		tried(c)
		return fails(c)
	}}
	for {
		before := p.size()
		p = m.steps(p)
		p = m.nodes(p)
		p = m.waits(p)
		if p.size() == before {
			return p
		}
	}
}

// size weighs a plan: Minimise makes it smaller.
func (p Plan) size() time.Duration {
	size := time.Duration(len(p.Steps)+p.Nodes) * time.Hour
	for _, s := range p.Steps {
		size += s.After
	}
	return size
}

type minimiser struct{ fails func(Plan) bool }

// steps leaves out halves, quarters, … single steps as long as one of them
// is not needed.
func (m minimiser) steps(p Plan) Plan {
	for chunk := (len(p.Steps) + 1) / 2; chunk >= 1; {
		smaller := false
		for at := 0; at < len(p.Steps); {
			c := p
			c.Steps = slices.Delete(slices.Clone(p.Steps), at, min(at+chunk, len(p.Steps)))
			if m.fails(c) {
				p, smaller = c, true
			} else {
				at += chunk
			}
		}
		if !smaller || chunk > len(p.Steps) {
			chunk /= 2
		}
	}
	return p
}

// nodes removes the last node as long as the failure does not need it.
func (m minimiser) nodes(p Plan) Plan {
	for p.Nodes > 1 {
		last := fmt.Sprintf("n%d", p.Nodes)
		c := p
		c.Nodes--
		before, after := fmt.Sprintf("nodes=%d", p.Nodes), fmt.Sprintf("nodes=%d", c.Nodes)
		c.Topology.Line = strings.Replace(p.Topology.Line, before, after, 1)
		namesLast := func(s Step) bool { return slices.Contains(strings.Fields(s.Line), last) }
		c.Steps = slices.DeleteFunc(slices.Clone(p.Steps), namesLast)
		if misplaced(c) || !m.fails(c) {
			return p
		}
		p = c
	}
	return p
}

var givesAddress = regexp.MustCompile(`^fault n(\d+) uplink (?:address|vip)=(\S+)`)

// misplaced reports whether a step gives a node an address of another segment: with fewer nodes, some are
// on other segments than the plan was drawn for.
func misplaced(p Plan) bool {
	top := lang.Topology{Nodes: p.Nodes, Segments: 1}
	for _, word := range strings.Fields(p.Topology.Line) {
		_, _ = fmt.Sscanf(word, "segments=%d", &top.Segments) // other words do not match
	}
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		m := givesAddress.FindStringSubmatch(s.Line)
		if m == nil {
			return false
		}
		node, err := strconv.Atoi(m[1])
		addr, bad := netip.ParseAddr(m[2])
		return err == nil && bad == nil &&
			!lang.UnderlayAddr(cidr.FamilyOf(addr), top.Segment(node-1), 0).Masked().Contains(addr)
	})
}

// waits shortens the time before each step, to zero if it does not matter.
func (m minimiser) waits(p Plan) Plan {
	for i := range p.Steps {
		for _, after := range []time.Duration{0, p.Steps[i].After / 4, p.Steps[i].After / 2} {
			c := p
			c.Steps = slices.Clone(p.Steps)
			c.Steps[i].After = after.Round(time.Millisecond)
			if c.Steps[i].After < p.Steps[i].After && m.fails(c) {
				p = c
				break
			}
		}
	}
	return p
}
