package lang

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// ForceNextHops makes routes use next-hop objects "always" or "never" in topologies without an
// argument nexthops=. Then "state" and "diff" print routes as if they used none, so the file's expected
// output stays true. An object that no route uses is still printed.
func (s *Session) ForceNextHops(when string) error {
	if !slices.Contains([]string{"always", "never"}, when) {
		return fmt.Errorf("next hops %q: want always or never", when)
	}
	s.nextHops = when
	return nil
}

// forceNextHops applies what ForceNextHops asked for to the topology that a directive describes.
func (s *Session) forceNextHops(top *Topology, d *datadriven.TestData) {
	named := slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "nexthops" })
	if named {
		s.nextHops = ""
	}
	if s.nextHops == "always" {
		top.NextHops = 1
	}
}

// hidesNextHops reports whether the session's answers leave out next-hop objects.
func (s *Session) hidesNextHops() bool { return s.nextHops != "" }

// withoutNextHops returns a state whose routes have gateways of their own in place of the next-hop
// objects that they use. It keeps objects that no route uses, and routes that differ from their object.
func withoutNextHops(state *dataplane.State) *dataplane.State {
	plain := state.Clone()
	for _, r := range state.Routes.All {
		h, there := state.NextHops.Get(r.NextHop)
		if !there || h != nextHopOf(r) {
			continue
		}
		plain.NextHops.Delete(h.ID)
		r.NextHop = 0
		plain.Routes.Put(r)
	}
	return plain
}

// nextHopOf returns the object that a route uses, as the route shows it.
func nextHopOf(r dataplane.Route) dataplane.NextHop {
	return dataplane.NextHop{ID: r.NextHop, Link: r.Link, Via: r.Via, OnLink: r.OnLink}
}

// linesWithoutNextHops returns the lines of a difference with such routes, and without the objects that
// routes of the difference use.
func linesWithoutNextHops(lines []node.Line) []node.Line {
	parsed := make([]dataplane.Object, len(lines))
	used := map[dataplane.NextHopID]bool{}
	for i, l := range lines {
		o, err := dataplane.ParseObject(l.Object)
		if err != nil {
			continue // no object, such as a command of the operator
		}
		parsed[i] = o
		if r, ok := o.(dataplane.Route); ok {
			used[r.NextHop] = true
		}
	}
	var plain []node.Line
	for i, l := range lines {
		switch o := parsed[i].(type) {
		case dataplane.NextHop:
			if used[o.ID] {
				continue
			}
		case dataplane.Route:
			o.NextHop = 0
			l.Object = o.String()
		}
		plain = append(plain, l)
	}
	return plain
}
