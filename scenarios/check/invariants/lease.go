package invariants

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/drivers/sim/store"
)

// excuse notes that a node may change its subnet: its record is gone, another client
// overwrote it, or an older record overlaps it.
func (i *Invariants) excuse(w store.Write) {
	var key lease.Key
	if w.New != nil {
		key = w.New.Lease.Key
	}
	for name, n := range i.nodes {
		switch {
		case w.Client == name && w.Key == n.last.String() && n.repairs(w):
			n.excused = false
		case !n.last.IsValid() || n.excused:
			continue
		case w.Key != n.last.String():
			n.excused = key.IsValid() && key.Overlaps(n.last)
		case w.Client != name: // its own writes are no excuse
			n.excused = w.New == nil || w.New.Flaw != "" || owner(w.New.Lease.Attrs) != i.records[w.Key].addr
		}
	}
}

// repairs reports whether a node's write to its own record repairs a flawed one. A
// node that must move, as after a change of the config, deletes it.
func (n *Node) repairs(w store.Write) bool {
	return n.holds && w.Old != nil && w.Old.Flaw != "" && w.New != nil && n.all.fits(n.last)
}

// believes follows the subnet that a node considers its own.
func (i *Invariants) believes(n *Node, key lease.Key, holds bool) {
	if holds == n.holds && key == n.key {
		return
	}
	n.key, n.record = key, key.String()
	n.holds = holds
	if !holds {
		return
	}
	n.resumed = lease.Key{}
	i.checkAssigned(n, key)
	h := i.records[n.record]
	stale := i.staleReads() || n.blind == key // a new process may not see the record of its former one
	other := n.last.IsValid() && n.last != key && !n.excused && !n.Twinned && h != nil
	moved := other && h.addr == n.lastAddr
	switch {
	case other && stale:
		n.hidden = append(n.hidden, n.last)
	case moved && !n.finds(key) && !n.disowned():
		i.broken("subnet-kept", "%s gave %s up for %s, although its record was neither deleted nor expired nor taken",
			n.name, n.last, key)
	}
	// A renewal does not read the record, and a grant may be answered after the record is gone.
	// The node may hold a subnet that fits the newest config, which it does not know yet, and not the one that it knows.
	n.last, n.excused = key, n.lostAt[n.record] > 0 || !i.fits(key) || !i.fitsConfig(n.config, key)
	if h != nil {
		n.excused = n.excused || h.flawed || i.overlapsOlder(h)
		n.lastAddr = h.addr
	}
	for _, name := range i.order {
		other := i.nodes[name]
		if other != n && other.live() && other.key.Overlaps(key) && !n.Twinned && !other.Twinned {
			i.overlap(n, other)
		}
	}
}

// noteBlind notes that a node created a record while reads could be stale. The node
// holds the subnet once a snapshot shows the record, perhaps long after that fault.
func (n *Node) noteBlind(w store.Write) {
	if w.Old == nil && n.all.staleReads() {
		n.blind = w.New.Lease.Key
	}
}

func (i *Invariants) staleReads() bool { return i.about.Store.Faults().StaleList > 0 }

// fits reports whether a subnet fits the config in force. A node may still follow
// an older one.
func (i *Invariants) fits(key lease.Key) bool { return i.bad || alloc.Compatible(i.config, key) == nil }

// disowned reports whether the record of the node's last subnet looks like another host's: a former process of the node
// gave it an address, ended before the answer, and the host has lost that address.
func (n *Node) disowned() bool {
	h := n.all.records[n.last.String()]
	return h != nil && h.writer == n.name && h.addr != n.lastAddr && !slices.Contains(n.published.asked, h.addr) &&
		!slices.Contains(n.addresses(), h.addr)
}

// finds reports whether a node may come back to a subnet. It may if a stale read
// hid the subnet's record when the node moved on, which left it with two records,
// and if its subnet file does not name the later one, so no pod can have an address
// there.
func (n *Node) finds(key lease.Key) bool {
	return slices.Contains(n.hidden, key) && n.announced() != n.last
}

// overlap describes two live nodes that hold one subnet. It is excused until a
// node can know that its record was deleted or overwritten from outside. Time
// and the nodes alone must never cause one.
type overlap struct {
	since time.Duration
	known time.Duration // since when the node that lost its record could know that; 0: it cannot yet
	twins bool          // both have had one address, and the store cannot separate them (interop E6: duplicate addresses)
}

// newsBound is how long a node may continue after a snapshot has shown that its
// record is gone: a request under way may have to reach its deadline first.
const newsBound = 10 * time.Second

func (i *Invariants) overlap(a, b *Node) {
	p := pair{a.name, b.name}
	slices.Sort(p[:])
	if _, old := i.overlaps[p]; !old {
		i.overlaps[p] = overlap{since: i.elapsed()}
	}
}

// checkOverlaps runs after every event. It rarely has anything to do.
func (i *Invariants) checkOverlaps() error {
	if len(i.overlaps) == 0 {
		return nil
	}
	for _, p := range slices.SortedFunc(maps.Keys(i.overlaps),
		func(a, b pair) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		a := i.nodes[p[0]]
		b := i.nodes[p[1]]
		o := i.overlaps[p]
		if !a.live() || !b.live() || !a.key.Overlaps(b.key) {
			delete(i.overlaps, p)
			continue
		}
		if !a.sharesSubnet(b) {
			continue
		}
		loser := a
		if a.recordLostAt() == 0 || b.recordLostAt() > 0 && a.knows() {
			loser = b
		}
		o.twins = o.twins || a.sharesAddress(b)
		if !o.twins {
			if err := i.judge(&o, a, b, loser); err != nil {
				return err
			}
		}
		i.overlaps[p] = o
	}
	return nil
}

// sharesSubnet reports whether the subnets of two nodes overlap in a family that both
// carry. In a family that is off, neither has anything on its host, and one of them may
// not know yet that the datastore has moved it to another subnet.
func (n *Node) sharesSubnet(o *Node) bool {
	return slices.ContainsFunc(cidr.Families[:], func(f cidr.Family) bool {
		return n.key.Of(f).Overlaps(o.key.Of(f)) && n.carries(f) && o.carries(f)
	})
}

// judge returns an error for an overlap without an excuse. It notes since when the
// loser could know that its record is gone.
func (i *Invariants) judge(o *overlap, a, b, loser *Node) error {
	now := i.elapsed()
	both := fmt.Sprintf("%s and %s have both held %s since %s", a.name, b.name, a.key, o.since)
	switch {
	case loser.recordLostAt() == 0:
		return fmt.Errorf("%s, though neither lost its record", both)
	case !loser.knows():
		o.known = 0
	case o.known == 0:
		o.known = now
	case now-o.known > newsBound:
		return fmt.Errorf("%s, and the one that lost its record could have known that for %s", both, now-o.known)
	}
	return nil
}

func (n *Node) sharesAddress(o *Node) bool {
	others := o.addresses()
	return slices.ContainsFunc(n.addresses(),
		func(a netip.Addr) bool { return a.IsGlobalUnicast() && slices.Contains(others, a) })
}

// noteLost notes that a node lost a record that it holds or wrote: another client
// deleted or overwrote it. The end of the TTL that the node was granted does not
// count, nor does a record that does not decode.
func (i *Invariants) noteLost(w store.Write, h *history) {
	if w.New != nil && w.New.Flaw != "" {
		return
	}
	for name, n := range i.nodes {
		if w.Client == name || w.New != nil && n.lostAt[w.Key] > 0 && i.hasAddress(name, owner(w.New.Lease.Attrs)) {
			delete(n.lostAt, w.Key)
			continue
		}
		expired := w.New == nil && w.Expired && h.writer == name
		concerned := w.Key == n.record || h.writer == name
		if concerned && !expired && (w.New == nil || owner(w.New.Lease.Attrs) != h.addr) {
			n.lostAt[w.Key] = i.about.Store.Revision()
		}
	}
}

// recordLostAt returns the revision at which the node lost the record of its
// subnet, or 0.
func (n *Node) recordLostAt() int64 { return n.lostAt[n.record] }

// knows reports whether the node's client has shown it the loss of its record.
func (n *Node) knows() bool {
	view := n.client.View()
	return view.Synced && view.Snapshot.Revision >= n.recordLostAt()
}

// exited checks the exit of a daemon. It has few reasons to exit by itself: a host
// without an uplink, an unusable first config, and the loss of its lease with
// --on-lease-lost=exit.
func (i *Invariants) exited(n *Node, exit node.Exit) {
	firstConfigIsBad := n.config == "" && n.document != ""
	if exit.Status == 0 || firstConfigIsBad || i.about.ExitOnLoss {
		return
	}
	if _, err := uplink.Select(uplink.Options{}, i.config, uplink.Host{Facts: n.Facts()}); err != nil {
		return
	}
	i.broken("stays-up", "the daemon of %s exits with %d: %s", n.name, exit.Status, exit.Reason)
}
