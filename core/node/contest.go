package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// The pauses between two replacements of a device that another program changes back, and
// the quiet time after which the next replacement is the first again.
const (
	contestFirst = time.Second
	contestMost  = 30 * time.Second
	contestQuiet = time.Minute
)

// contests pace the replacement of own devices that another program changes back each time,
// such as a second flanneld on this host, started by mistake. A userspace WireGuard device
// belongs to one process, and a VXLAN device gets a MAC address from each of the two. Without
// pauses, both would cut all connections several times a second.
type contests struct {
	of  map[string]contest // by link
	why string             // why ops of the last plan have to wait, or ""
}

// contest is the replacement of one device.
type contest struct {
	to     dataplane.Link // what the last replacement made
	rounds int            // replacements in a row by the same, without a quiet time between them
	until  time.Time      // time of the next replacement, at the earliest
}

// replaced returns the links that a plan deletes and creates again, or gives another MAC
// address, which empties the neighbour table. A link that is missing or down is not
// replaced, and no repair of it does harm.
func replaced(plan []dataplane.Op, have *dataplane.State) []dataplane.Link {
	var links []dataplane.Link
	for _, op := range plan {
		link, ok := op.Object.(dataplane.Link)
		if !ok || op.Verb == dataplane.Delete {
			continue
		}
		was, exists := have.Links[link.Name]
		if exists && (op.Verb == dataplane.Create || !link.MAC.IsZero() && link.MAC != was.MAC) {
			links = append(links, link)
		}
	}
	return links
}

// putOff implements [delayer]. The ops on a contested device wait, and all others go on.
func (p hostPart) putOff(plan []dataplane.Op) (now []dataplane.Op, again time.Time) {
	n, c := p.n, &p.n.host.contests
	c.why = ""
	var paused []string
	var free []dataplane.Link
	for _, link := range replaced(plan, n.host.have) {
		last := c.of[link.Name]
		if last.to != link || !n.now.Before(last.until) {
			free = append(free, link)
			continue
		}
		paused = append(paused, link.Name)
		if again.IsZero() || last.until.Before(again) {
			again = last.until
		}
	}
	n.noteReplaced(free)
	if len(paused) == 0 {
		return plan, time.Time{}
	}
	c.why = fmt.Sprintf("another program changes %s back each time, such as a second flanneld on this host; "+
		"stop that program; this node repairs the device within %s", strings.Join(paused, " and "), contestMost)
	n.once(Warning, "device-contested", c.why)
	return unpaused(plan, paused), again
}

// noteReplaced sets the pauses before these links are replaced again.
func (n *Node) noteReplaced(links []dataplane.Link) {
	c := &n.host.contests
	rounds := 0
	for _, link := range links {
		if last := c.of[link.Name]; last.to == link && n.now.Sub(last.until) < contestQuiet {
			rounds = max(rounds, last.rounds)
		}
	}
	if len(links) == 0 {
		return
	}
	until := n.now.Add(n.backoff(rounds, contestFirst, contestMost))
	for _, link := range links {
		c.of[link.Name] = contest{to: link, rounds: rounds + 1, until: until}
	}
}

// unpaused returns the ops of a plan that neither change the paused devices nor depend on ops that
// do: no route goes before the one that takes its place, and no device before the routes that lead
// away from it.
func unpaused(plan []dataplane.Op, paused []string) []dataplane.Op {
	waits := func(op dataplane.Op) bool { return slices.Contains(paused, deviceOf(op.Object)) }
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
