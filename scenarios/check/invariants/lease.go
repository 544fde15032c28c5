package invariants

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// excuse notes why a node may come to have another subnet than it had: the
// record of it went, was put by another client, or an older one covers it.
func (i *Invariants) excuse(w store.Write) {
	var key lease.Key
	if w.New != nil {
		key = w.New.Lease.Key
	}
	for name, n := range i.nodes {
		switch {
		case w.Client == name && w.Key == n.last.String() && n.holds && w.Old != nil && w.Old.Flaw != "":
			n.excused = false // its record is put right
		case !n.last.IsValid() || n.excused:
		case w.Key != n.last.String():
			n.excused = key.IsValid() && key.Overlaps(n.last)
		case w.Client == name:
			// What it does itself is no excuse.
		default:
			n.excused = w.New == nil || w.New.Flaw != "" || owner(w.New.Lease.Attrs) != i.records[w.Key].addr
		}
	}
}

// believes follows what a node takes its subnet to be.
func (i *Invariants) believes(n *Node, key lease.Key, holds bool) {
	if holds == n.holds && key == n.key {
		return
	}
	n.key, n.holds = key, holds
	if !holds {
		return
	}
	i.checkAssigned(n, key)
	h := i.records[key.String()]
	stale := i.about.Store.Faults().StaleList > 0 // a new process may not be shown what its former one wrote
	moved := n.last.IsValid() && n.last != key && !n.excused && !n.Twinned && h != nil && h.addr == n.lastAddr
	switch {
	case moved && stale:
		n.hidden = append(n.hidden, n.last)
	case moved && !n.finds(key):
		i.broken("subnet-kept", "%s gave %s up for %s, although its record was neither deleted nor expired nor taken", n.name, n.last, key)
	}
	// A renewal does not ask what the record says, and a grant may be answered when the record is gone.
	n.last, n.excused = key, h != nil && h.flawed || n.lostAt[key.String()] > 0
	if h != nil {
		n.lastAddr = h.addr
	}
	for _, name := range i.order {
		other := i.nodes[name]
		if other != n && other.live() && other.key.Overlaps(key) && !n.Twinned && !other.Twinned {
			i.overlap(n, other)
		}
	}
}

// finds reports whether a node may come back to a subnet: a stale read hid its
// record when it moved on, so that it has two now, and its subnet file does not
// name the one it held since: no pod can get an address in that.
func (n *Node) finds(key lease.Key) bool {
	return slices.Contains(n.hidden, key) && n.announced() != n.last
}

// overlap is two live nodes that hold one subnet. It is excused until a node can
// know that its record was deleted or overwritten from outside. If only time and
// the nodes themselves were at work, it must not happen.
type overlap struct {
	since time.Duration
	known time.Duration // since when the one that lost its record could know; 0: not yet
	twins bool          // both have had one address, by which the store tells nodes apart (interop E6)
}

// newsBound is how long a node with a snapshot that shows its record gone may
// go on: a request that is under way may have to run into its deadline first.
const newsBound = 10 * time.Second

func (i *Invariants) overlap(a, b *Node) {
	p := pair{a.name, b.name}
	slices.Sort(p[:])
	if _, old := i.overlaps[p]; !old {
		i.overlaps[p] = overlap{since: i.elapsed()}
	}
}

// checkOverlaps is called after every event, and nearly always has nothing to do.
func (i *Invariants) checkOverlaps() error {
	if len(i.overlaps) == 0 {
		return nil
	}
	for _, p := range slices.SortedFunc(maps.Keys(i.overlaps), func(a, b pair) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		a, b, o := i.nodes[p[0]], i.nodes[p[1]], i.overlaps[p]
		if !a.live() || !b.live() || !a.key.Overlaps(b.key) {
			delete(i.overlaps, p)
			continue
		}
		loser := a
		if a.recordLostAt() == 0 || b.recordLostAt() > 0 && a.knows() {
			loser = b
		}
		o.twins = o.twins || a.sharesAddress(b)
		switch now := i.elapsed(); {
		case o.twins:
		case loser.recordLostAt() == 0:
			return fmt.Errorf("%s and %s both hold %s since %s, though neither lost its record", a.name, b.name, a.key, o.since)
		case !loser.knows():
			o.known = 0
		case o.known == 0:
			o.known = now
		case now-o.known > newsBound:
			return fmt.Errorf("%s and %s both hold %s since %s, and the one that lost its record could know it for %s", a.name, b.name, a.key, o.since, now-o.known)
		}
		i.overlaps[p] = o
	}
	return nil
}

func (n *Node) sharesAddress(o *Node) bool {
	others := o.addresses()
	return slices.ContainsFunc(n.addresses(), func(a netip.Addr) bool { return a.IsGlobalUnicast() && slices.Contains(others, a) })
}

// rob notes that a record went on which a node's belief rests, or will when
// its snapshot shows the record, other than by the end of the TTL that the node
// was granted.
func (i *Invariants) rob(w store.Write, h *history) {
	for name, n := range i.nodes {
		switch {
		case w.New != nil && w.New.Flaw != "":
		case w.Client == name, w.New != nil && n.lostAt[w.Key] > 0 && i.hasAddress(name, owner(w.New.Lease.Attrs)):
			delete(n.lostAt, w.Key)
		case w.New == nil && w.Expired && h.writer == name:
		case w.Key != n.key.String() && h.writer != name:
		case w.New == nil, owner(w.New.Lease.Attrs) != h.addr:
			n.lostAt[w.Key] = i.about.Store.Revision()
		}
	}
}

// recordLostAt is the revision at which the record of what the node holds went; 0:
// it did not.
func (n *Node) recordLostAt() int64 { return n.lostAt[n.key.String()] }

// knows reports whether the node's client has shown it the loss of its record.
func (n *Node) knows() bool {
	view := n.client.View()
	return view.Synced && view.Snapshot.Revision >= n.recordLostAt()
}

// exited follows the end of a process by itself. There are few reasons for it:
// a host without an uplink, a config that cannot be used, and what -X asks for.
func (i *Invariants) exited(n *Node, exit node.Exit) {
	if exit.Status == 0 || i.bad || i.about.ExitOnLoss {
		return
	}
	if _, err := uplink.Select(uplink.Options{}, i.config, n.Facts()); err != nil {
		return
	}
	i.broken("stays-up", "the daemon of %s exits with %d: %s", n.name, exit.Status, exit.Reason)
}
