package node

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// A repair is made at once until it has been undone contestFree times. Each further one waits, longer
// each time. A repair that cuts connections waits from the second one on, and longer. A repair that has
// lasted contestHeld keeps no node from being ready, and after contestQuiet it is the first again.
const (
	contestFree  = 3
	contestFirst = time.Second
	contestMost  = 10 * time.Second
	contestCuts  = 30 * time.Second
	contestHeld  = 15 * time.Second
	contestQuiet = time.Minute
)

// contests are the repairs of a lane that do not last, since another program undoes each of them at once: a
// second flanneld started by mistake, a network manager, a script. Without pauses the two would keep the host
// busy. Some repairs cut all connections each time: a userspace WireGuard device belongs to one process, and a
// VXLAN device gets a MAC address from each of two daemons.
//
// While a repair does not last the node is not ready, also in the moments between a repair and its end.
type contests struct {
	of     map[string]*contest // by op
	told   bool                // the log names the program's work
	silent bool                // the last repair has no line in the log
}

// contest is one op that undoes what another program did.
type contest struct {
	rounds int       // repairs without a quiet time between two
	free   int       // of them without a pause
	last   time.Time // of the last one
	until  time.Time // time of the next one, at the earliest
	undone bool      // undone too often
	text   string    // for operators
	place  int       // in a plan: what others depend on comes first
}

// cutter is a part some of whose repairs cut connections, and whose ops depend on each other.
type cutter interface {
	// cuts reports for each link of a plan whether the plan replaces it.
	cuts(plan []dataplane.Op) map[string]bool
	// independent returns the ops of a plan that neither wait nor depend on ops that do.
	independent(plan []dataplane.Op, waits func(dataplane.Op) bool) []dataplane.Op
}

// quiet returns the time after which a repair counts as the first again.
func (l *lane) quiet() time.Duration { return max(contestQuiet, 2*l.part.pace().every) }

// noteRepairs counts the repairs of a plan, unless some failed: then the failure may be the cause of the next plan.
// The desired state may change while another program undoes a repair.
func (n *Node) noteRepairs(l *lane, done []dataplane.Op) {
	c := &l.contests
	failed := len(done) < len(l.plan)
	if failed || !l.repairs && (len(c.of) == 0 || l.retry || l.retried) {
		return
	}
	if c.of == nil {
		c.of = map[string]*contest{}
	}
	var cuts map[string]bool
	if p, ok := l.part.(cutter); ok {
		cuts = p.cuts(l.plan)
	}
	quieter, _ := l.part.(quieter)
	for place, op := range done {
		if quieter != nil && quieter.routine(op) {
			continue
		}
		key := op.String()
		one := c.of[key]
		if one == nil && !l.repairs {
			continue
		}
		if one == nil {
			one = &contest{free: contestFree, text: l.part.describe([]dataplane.Op{op})}
			c.of[key] = one
		}
		most := contestMost
		if link, is := op.Object.(dataplane.Link); is && cuts[link.Name] {
			one.free, most = 1, contestCuts
		}
		one.rounds++
		one.place = place
		one.last, one.until = n.now, n.now
		if one.rounds >= one.free {
			one.until = n.now.Add(n.backoff(one.rounds-one.free, contestFirst, most))
		}
	}
}

// putOff returns the ops of a plan that may begin now, and the time to look again for the others, or zero if
// there are none.
func (n *Node) putOff(l *lane, plan []dataplane.Op) (now []dataplane.Op, again time.Time) {
	c := &l.contests
	if len(c.of) == 0 {
		return plan, time.Time{}
	}
	waiting := map[string]bool{}
	for _, op := range plan {
		key := op.String()
		one := c.of[key]
		if one == nil || one.rounds < one.free {
			continue
		}
		waiting[key] = true
		one.undone = one.undone || one.rounds >= contestFree
		if one.until.After(again) {
			again = one.until
		}
	}
	if text := c.text(); text != "" && !c.told {
		c.told = true
		n.event(Warning, "repairs-undone", l.id.String()+": "+text)
	}
	if !n.now.Before(again) {
		return plan, time.Time{}
	}
	p, ok := l.part.(cutter)
	if !ok {
		return nil, again
	}
	return p.independent(plan, func(op dataplane.Op) bool { return waiting[op.String()] }), again
}

// forget ends the contests without a repair for the quiet time.
func (c *contests) forget(now time.Time, quiet time.Duration) {
	maps.DeleteFunc(c.of, func(_ string, one *contest) bool { return now.Sub(one.last) >= quiet })
}

// settle follows a look that has found no difference. It returns the time of the next look that can show that a repair
// has lasted; zero: there is none.
func (c *contests) settle(now time.Time) (again time.Time) {
	for _, one := range c.of {
		end := one.last.Add(contestHeld)
		one.undone = one.undone && end.After(now)
		if one.undone && end.After(again) {
			again = end
		}
	}
	c.told = c.told && !again.IsZero()
	return again
}

// text names the repairs that were undone too often, or is empty.
func (c *contests) text() string {
	var first *contest
	more := -1
	for _, one := range c.of {
		if !one.undone {
			continue
		}
		more++
		if first == nil || one.place < first.place || one.place == first.place && one.text < first.text {
			first = one
		}
	}
	if first == nil {
		return ""
	}
	others := ""
	if more > 0 {
		others = fmt.Sprintf(" and %d others", more)
	}
	return fmt.Sprintf("another program on this host, such as a second flanneld, undoes this repair each time: %q%s; "+
		"stop that program: this node is ready again once a repair has lasted %s", first.text, others, contestHeld)
}

// allUndone reports whether all ops are repairs that were undone too often.
func (c *contests) allUndone(ops []dataplane.Op) bool {
	return !slices.ContainsFunc(ops, func(op dataplane.Op) bool {
		one := c.of[op.String()]
		return one == nil || !one.undone
	})
}

// cuts implements [cutter]. A plan that deletes a link and creates it again, or gives it another MAC address,
// which empties the neighbour table, cuts all connections. A link that is missing or down is not replaced, and
// no repair of it does harm.
func (p hostPart) cuts(plan []dataplane.Op) map[string]bool {
	replaced := map[string]bool{}
	for _, op := range plan {
		link, ok := op.Object.(dataplane.Link)
		if !ok || op.Verb == dataplane.Delete {
			continue
		}
		was, exists := p.n.host.have.Links[link.Name]
		if exists && (op.Verb == dataplane.Create || !link.MAC.IsZero() && link.MAC != was.MAC) {
			replaced[link.Name] = true
		}
	}
	return replaced
}

// independent implements [cutter]. No object goes on a device that waits, no route over a next hop that does; no
// route goes before the one that takes its place, and no device before the routes that lead away from it.
func (p hostPart) independent(plan []dataplane.Op, paused func(dataplane.Op) bool) []dataplane.Op {
	devices, hops := map[string]bool{}, map[dataplane.NextHopID]bool{}
	for _, op := range plan {
		if !paused(op) {
			continue
		}
		switch o := op.Object.(type) {
		case dataplane.Link:
			devices[o.Name] = true
		case dataplane.NextHop:
			hops[o.ID] = op.Verb != dataplane.Delete
		}
	}
	waits := func(op dataplane.Op) bool {
		r, _ := op.Object.(dataplane.Route)
		return devices[deviceOf(op.Object)] || hops[r.NextHop] || paused(op)
	}
	routes := map[netip.Prefix]bool{}
	for _, op := range plan {
		if r, ok := op.Object.(dataplane.Route); ok && op.Verb != dataplane.Delete && waits(op) {
			routes[r.Dst] = true
		}
	}
	var now []dataplane.Op
	for _, op := range plan {
		r, isRoute := op.Object.(dataplane.Route)
		_, isLink := op.Object.(dataplane.Link)
		needed := isLink && op.Verb == dataplane.Delete && len(routes) > 0
		if !waits(op) && !needed && !(isRoute && routes[r.Dst]) {
			now = append(now, op)
		}
	}
	return now
}
