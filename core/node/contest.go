package node

import (
	"fmt"
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
	why string             // why the last plan has to wait, or ""
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

// earliest implements [delayer].
func (p hostPart) earliest(plan []dataplane.Op) time.Time {
	n, c := p.n, &p.n.host.contests
	c.why = ""
	links := replaced(plan, n.host.have)
	if len(links) == 0 {
		return time.Time{}
	}
	for _, link := range links {
		if last := c.of[link.Name]; last.to == link && n.now.Before(last.until) {
			c.why = fmt.Sprintf("another program changes %s back each time, such as a second flanneld on this host; "+
				"stop that program; this node repairs the device within %s", link.Name, contestMost)
			n.once(Warning, "device-contested", c.why)
			return last.until
		}
	}
	rounds := 0
	for _, link := range links {
		if last := c.of[link.Name]; last.to == link && n.now.Sub(last.until) < contestQuiet {
			rounds = max(rounds, last.rounds)
		}
	}
	until := n.now.Add(n.backoff(rounds, contestFirst, contestMost))
	for _, link := range links {
		c.of[link.Name] = contest{to: link, rounds: rounds + 1, until: until}
	}
	return time.Time{}
}
