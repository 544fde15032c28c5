package invariants

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// runBound is how long a network may be refused on a host after the last thing in its way there has gone.
const runBound = lookBound

// verdict is the decision of a host about a network, as the network's process knows it.
type verdict struct {
	revision int64         // of the config that it is about
	freeAt   time.Duration // since when a refused config has had nothing in its way; meaningful if free
	free     bool
}

// inForceAt is the knowledge of a process about its config before it took in a view.
type inForceAt struct {
	document, config string
	refused          bool
}

// runs reports whether the config was in force.
func (f inForceAt) runs() bool { return f.document != "" && f.document == f.config && !f.refused }

// reconsider is called after each change of a config. While two configs collide, hosts run the network that they run
// already, and of two that begin the one with the older config: so the other one's nodes may have any config, or none.
func (a *Apart) reconsider() {
	order := slices.SortedStableFunc(slices.Values(a.all), func(i, j *Invariants) int {
		return cmp.Or(cmp.Compare(i.waits(), j.waits()), cmp.Compare(i.storedAt, j.storedAt))
	})
	for at, i := range order {
		network, b, usable := usableConfig(i.stored)
		other := func(o *Invariants) bool { return o != i && collide(i.stored, o.stored) }
		older := func(o *Invariants) bool { return other(o) && !o.bad }
		i.contested = slices.ContainsFunc(a.all, other)
		switch {
		case !usable:
			i.bad = true
		case slices.ContainsFunc(order[:at], older):
			i.bad = true
			i.mayHave(network, b)
			for _, n := range i.nodes {
				n.excused = true
			}
		case i.bad:
			i.takeConfig(i.stored)
		}
	}
}

// waits returns 0 if the hosts run the network with the config in the store, and 1 if not.
func (i *Invariants) waits() int {
	if !i.bad && i.text == i.stored {
		return 0
	}
	return 1
}

// collide reports whether no host can have two networks at once.
func collide(one, other string) bool {
	n, b, ok := usableConfig(one)
	o, c, ok2 := usableConfig(other)
	if !ok || !ok2 {
		return false
	}
	for _, f := range cidr.Families {
		if p, q := n.Of(f).Network, o.Of(f).Network; p.IsValid() && q.IsValid() && p.Overlaps(q) {
			return true
		}
	}
	return slices.ContainsFunc(b.Extent().Links, func(l string) bool { return slices.Contains(c.Extent().Links, l) }) ||
		sharePort(n, b, o, c)
}

// sharePort reports whether two networks listen at one UDP port. VXLAN devices can do that.
func sharePort(n config.Network, b backend.Backend, o config.Network, c backend.Backend) bool {
	one, _ := all.Find(b.Type())
	other, _ := all.Find(c.Type())
	return backend.Exclude(one.Ports(n), other.Ports(o)) != 0
}

// besides returns the nodes of the other networks on the node's host whose processes run.
func (n *Node) besides() []*Node {
	var found []*Node
	for _, i := range n.all.about.Apart.all {
		if o := i.nodes[n.name]; i != n.all && o != nil && o.Daemon != nil && o.Daemon.Running() {
			found = append(found, o)
		}
	}
	return found
}

// refusals matches the reason for which a host refuses a network.
var refusals = regexp.MustCompile(`^network (\S+) cannot run on this host ` +
	`(?:yet: it and another network want|yet: network (\S+) still has|beside network (\S+):)`)

// judgeVerdict checks the decision about the node's network that a view tells.
func (n *Node) judgeVerdict(view lease.View, before inForceAt, status func() node.Status) {
	if n.all.about.Apart == nil || n.leaving || n.document == "" {
		return
	}
	n.verdict.revision = view.Snapshot.Config.Revision
	if !n.refused {
		n.verdict.free = false
		n.judgeRun(before)
		return
	}
	n.excused = true // it may have to take another subnet
	if before.runs() && before.document == n.document && !n.foundLate(view.Beside.Refused.Error()) {
		n.wrong("is refused, though its config was in force and has not changed: %v", view.Beside.Refused)
	}
	text := view.Beside.Refused.Error()
	n.judgeReason(text)
	said := status()
	if !slices.Contains(said.Reasons, text) {
		n.wrong("does not say that its config is refused: %q, but %q", text, said.Reasons)
	}
}

// foundLate reports whether the network in the way has lost its state file: it may find a device of its former run only
// after another network has begun with that device.
func (n *Node) foundLate(text string) bool {
	named := refusals.FindStringSubmatch(text)
	return named != nil && slices.ContainsFunc(n.besides(), func(o *Node) bool {
		return o.all.about.Network == named[2] && o.resumable == ""
	})
}

func (n *Node) wrong(format string, args ...any) {
	n.all.broken("networks-decided", "%s: network %s %s", n.name, n.all.about.Network, fmt.Sprintf(format, args...))
}

// judgeReason checks that a refusal names the network, and another one that is in its way.
func (n *Node) judgeReason(text string) {
	named := refusals.FindStringSubmatch(text)
	if named == nil || named[1] != n.all.about.Network {
		n.wrong("is refused without its name: %q", text)
		return
	}
	by := named[2] + named[3]
	if by == "" {
		return // several networks wait for each other
	}
	for _, o := range n.besides() {
		if o.all.about.Network != by {
			continue
		}
		if !slices.ContainsFunc(append(o.all.texts, o.resumable), func(had string) bool { return collide(n.document, had) }) {
			n.wrong("is refused for %s, which never had a config that collides with %s", by, n.document)
		}
		return
	}
	n.wrong("is refused for %s, which does not run", by)
}

// judgeRun checks that a network that begins to run collides with none that runs, and that none with an older config
// has to wait for it.
func (n *Node) judgeRun(before inForceAt) {
	if n.config != n.document {
		return // no node can use it
	}
	for _, o := range n.besides() {
		if o.leaving {
			continue
		}
		if collide(n.config, o.config) {
			n.wrong("runs with %s, and network %s with %s", n.config, o.all.about.Network, o.config)
		}
		waits := o.refused && o.verdict.revision < n.verdict.revision && collide(o.document, n.config)
		if waits && !before.runs() && !n.inWayOf(o, before) {
			n.wrong("begins to run with %s of revision %d, and network %s waits with the older %s of revision %d",
				n.config, n.verdict.revision, o.all.about.Network, o.document, o.verdict.revision)
		}
	}
}

// inWayOf reports whether another network could not run before the node had its present config: the node had another
// one that collides, or a third network has, or what the hosts had before is still there.
func (n *Node) inWayOf(o *Node, before inForceAt) bool {
	if collide(o.document, before.config) || collide(o.document, n.resumable) {
		return true
	}
	for _, third := range o.besides() {
		if third != n && (collide(o.document, third.config) || o.blockedByObjectsOf(third)) {
			return true
		}
	}
	return o.blockedByObjectsOf(n)
}

// blockedByObjectsOf reports whether another network may still have what the node's refused config needs: by a former
// config, which it keeps until its node has removed all of it.
func (n *Node) blockedByObjectsOf(o *Node) bool {
	on := n.all.about.Apart.hosts[n.name]
	network, b, ok := usableConfig(n.document)
	if on == nil || !ok {
		return true
	}
	if o.leaving || o.Daemon.Status().Change != nil {
		return true
	}
	for _, link := range b.Extent().Links {
		if on.exists(link) && on.links[link] == o.all.about.Network {
			return true
		}
	}
	for key, made := range on.routes {
		if _, exists := on.Route(key); exists && made == o.all.about.Network && inForce(network, key.Dst) {
			return true
		}
	}
	return false
}

// checkVerdicts is called after every event: a refused network runs soon after nothing is in its way any more.
func (i *Invariants) checkVerdicts() error {
	if i.about.Apart == nil {
		return nil
	}
	now := i.elapsed()
	for _, name := range i.order {
		n := i.nodes[name]
		v := &n.verdict
		if !n.refused || n.blocked() {
			v.free = false
			continue
		}
		if !v.free {
			v.free, v.freeAt = true, now
		}
		if now-v.freeAt > runBound {
			return fmt.Errorf("%s: network %s has been refused for %s, though nothing is in its way", name, i.about.Network,
				now-v.freeAt)
		}
	}
	return nil
}

// blocked reports whether a refused network may have to wait.
func (n *Node) blocked() bool {
	if n.Daemon == nil || !n.Daemon.Running() || n.stands() || n.leaving || len(n.all.storeFaults(n.name)) > 0 {
		return true
	}
	return slices.ContainsFunc(n.besides(), func(o *Node) bool {
		return collide(n.document, o.config) || collide(n.document, o.document) || collide(n.document, o.all.stored) ||
			len(o.all.storeFaults(o.name)) > 0 || n.blockedByObjectsOf(o)
	})
}

// noteText notes a config that the network has had in the store.
func (i *Invariants) noteText(text string) {
	if text != "" && !slices.Contains(i.texts, text) {
		i.texts = append(i.texts, text)
	}
}
