package nodelease

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gaissmai/bart"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Table holds all nodes of a cluster by name. A name has at most one lease, even
// if the node object's identity or subnet changes (interop K2: upstream
// keeps the old one).
type Table struct {
	self     string
	doc      lease.Document
	network  config.Network
	nodes    map[string]*entry
	revision int64 // of the last change that concerns flannel
	turn     int   // counts the calls of Set
	view     *view // derived from nodes; nil: not made yet
	last     last
	own      own
}

// entry is a node with its lease.
type entry struct {
	node     Node
	seen     int64       // revision of the last news of it
	turn     int         // the table's count at that news; 0: a listing
	lease    lease.Lease // good, unless its key is invalid; with a flaw, of an earlier value
	flaw     string      // why the present value is no lease
	modified int64       // revision of the present value
}

type view struct {
	snap     *lease.Snapshot
	assigned *lease.Assigned
}

// NewTable returns the empty table of one node, by name, in a network. The
// snapshots contain doc unchanged.
func NewTable(self string, doc lease.Document, network config.Network) *Table {
	return &Table{self: self, doc: doc, network: network, nodes: map[string]*entry{}}
}

// SetConfig puts another config in force, and reads all nodes again with it.
func (t *Table) SetConfig(doc lease.Document, network config.Network) {
	t.doc, t.network = doc, network
	t.changed(t.revision)
	t.reread(t.nodes)
}

// reread reads nodes again with the config in force.
func (t *Table) reread(nodes map[string]*entry) {
	for name, old := range nodes {
		e := t.read(old.node, old.modified, nil)
		e.seen, e.turn = old.seen, old.turn
		// An unreadable value leaves the last good one in force while the node
		// keeps its subnet, and the network contains it.
		key, err := old.node.key(t.network)
		if e.flaw != "" && old.flaw != "" && err == nil && key == old.lease.Key && isInside(t.network, key) {
			e.lease = old.lease
		}
		nodes[name] = e
	}
}

// Set records a node as of a revision, and reports whether that is news.
func (t *Table) Set(n Node, revision int64) bool {
	old := t.nodes[n.Name]
	t.turn++
	if old != nil {
		if revision <= old.seen {
			return false // older than the answer to one of our requests
		}
		old.seen, old.turn = revision, t.turn
		if old.node == n {
			return false
		}
	}
	e := t.read(n, revision, old)
	t.nodes[n.Name], e.turn = e, t.turn
	if n.Name != t.self && e.claimsLike(old) {
		t.replaced(old, e)
	} else {
		t.changed(max(t.revision, revision))
	}
	return true
}

// Delete records the end of a node, and reports whether that is news.
func (t *Table) Delete(name string, revision int64) bool {
	old := t.nodes[name]
	if old == nil || revision < old.seen {
		return false
	}
	delete(t.nodes, name)
	t.changed(max(t.revision, revision))
	return true
}

// Listing is a complete reading of a cluster, in parts.
type Listing struct {
	table *Table
	nodes map[string]*entry
	news  bool
	since int   // the table's turn at the beginning
	doc   int64 // the revision of the table's config at the beginning
}

// List begins a complete reading. The table does not change until the end.
func (t *Table) List() *Listing {
	return &Listing{table: t, nodes: make(map[string]*entry, len(t.nodes)), since: t.turn, doc: t.doc.Revision}
}

// Add records a node of the reading.
func (l *Listing) Add(n Node, revision int64) {
	old := l.table.nodes[n.Name]
	if old != nil && old.node == n {
		// The revision may be lower than before: a restored server counts again.
		e := *old
		e.seen, e.turn = revision, 0
		l.nodes[n.Name] = &e
		return
	}
	l.nodes[n.Name], l.news = l.table.read(n, revision, old), true
}

// End replaces the table's nodes with those of the reading, as of a revision,
// and reports whether anything has changed.
func (l *Listing) End(revision int64) bool {
	t := l.table
	if l.doc != t.doc.Revision {
		t.reread(l.nodes)
	}
	first := t.revision == 0
	news := first || l.news || len(l.nodes) != len(t.nodes) || revision < t.revision
	for name, e := range t.nodes {
		// The answer to one of our requests during the reading may be newer than the
		// reading. Older knowledge is not: a restored server counts again.
		if now := l.nodes[name]; now != nil && e.turn > l.since && e.seen > now.seen {
			l.nodes[name] = e
		}
	}
	t.nodes = l.nodes
	if news {
		t.changed(revision)
	}
	return news
}

func (t *Table) changed(revision int64) {
	t.revision, t.view = revision, nil
	t.last = last{}
}

// read makes an entry. An unreadable value leaves the last good one in force for
// the same node with the same subnet, since the peer has most likely not moved.
// Our own node instead corrects its value.
func (t *Table) read(n Node, revision int64, old *entry) *entry {
	e := &entry{node: n, seen: revision, modified: revision}
	if !n.Participates() {
		return e
	}
	l, err := n.lease(t.network)
	if err == nil {
		e.lease = l
		e.lease.ModRevision = revision
		return e
	}
	e.flaw = err.Error()
	if old != nil && n.Name != t.self && old.node.UID == n.UID && old.node.PodCIDRs == n.PodCIDRs {
		e.lease = old.lease
	}
	return e
}

// Snapshot returns the leases of all nodes, and our own assigned values. It
// returns the same pointers until something changes.
func (t *Table) Snapshot() (*lease.Snapshot, *lease.Assigned) {
	if t.view == nil {
		snap := t.last.snapshot(t.revision)
		if snap == nil {
			snap = t.snapshot()
		}
		t.view, t.last = &view{snap, t.assigned()}, last{snap: snap}
	}
	return t.view.snap, t.view.assigned
}

// Revision returns that of the last change that concerns flannel; 0: nothing is known.
func (t *Table) Revision() int64 { return t.revision }

// Len returns the number of nodes.
func (t *Table) Len() int { return len(t.nodes) }

// Node returns the last known state of a node, and the revision of the last news of it; 0: none is known.
func (t *Table) Node(name string) (Node, int64) {
	if e := t.nodes[name]; e != nil {
		return e.node, e.seen
	}
	return Node{}, 0
}

func (t *Table) snapshot() *lease.Snapshot {
	s := &lease.Snapshot{Revision: t.revision, Config: t.doc, Leases: make([]*lease.Lease, 0, len(t.nodes))}
	var taken [2]bart.Table[string] // by family, each subnet with the name of its node
	t.reserve(&taken)
	for _, e := range t.ranked() {
		flaw := e.flaw
		good := e.lease.Key.IsValid()
		if good {
			if why := t.refuse(e, &taken); why != "" {
				flaw, good = why, false
			}
		}
		if good {
			s.Leases = append(s.Leases, &e.lease)
			for _, f := range cidr.Families {
				if p := e.lease.Key.Of(f); p.IsValid() {
					taken[f].Insert(p, e.node.Name)
				}
			}
		}
		if flaw != "" {
			q := lease.Quarantined{Raw: "nodes/" + e.node.Name, Key: e.lease.Key, Reason: flaw}
			if good {
				q.OverwroteAt = e.modified
			}
			s.Quarantined = append(s.Quarantined, q)
		}
	}
	sortLeases(s.Leases)
	slices.SortFunc(s.Quarantined, func(a, b lease.Quarantined) int { return strings.Compare(a.Raw, b.Raw) })
	return s
}

// reserve keeps our own subnet free of others, published or not.
func (t *Table) reserve(taken *[2]bart.Table[string]) {
	own := t.nodes[t.self]
	if own == nil {
		return
	}
	if key, err := own.node.key(t.network); err == nil {
		for _, f := range cidr.Families {
			if p := key.Of(f); p.IsValid() {
				taken[f].Insert(p, t.self)
			}
		}
	}
}

// refuse returns the reason why a well-formed lease conflicts with those before
// it, or "".
func (t *Table) refuse(e *entry, taken *[2]bart.Table[string]) string {
	if e.node.Name == t.self {
		return ""
	}
	own := t.nodes[t.self]
	for _, f := range cidr.Families {
		p, ip := e.lease.Key.Of(f), e.lease.Attrs.IP(f)
		switch {
		case !p.IsValid():
			continue
		case taken[f].OverlapsPrefix(p):
			other := ""
			for q, name := range taken[f].All() {
				if q.Overlaps(p) && (other == "" || name < other) {
					other = name
				}
			}
			return fmt.Sprintf("node %s: pod CIDR %s overlaps that of node %s", e.node.Name, p, other)
		case own != nil && own.lease.Attrs.IP(f) == ip && ip.IsValid():
			return fmt.Sprintf("node %s: its public address %s is our own", e.node.Name, ip)
		}
	}
	return ""
}

// ranked returns the nodes in the order in which their claims count: our own first,
// then those whose subnets have the most common size, so that a claim to half the
// network does not displace all others, and among these the older first.
func (t *Table) ranked() []*entry {
	all := make([]*entry, 0, len(t.nodes))
	sizes := map[[2]int]int{}
	for _, e := range t.nodes {
		all = append(all, e)
		if e.lease.Key.IsValid() {
			sizes[sizeOf(e.lease.Key)]++
		}
	}
	rank := func(e *entry) int {
		if e.node.Name == t.self {
			return -1 << 30
		}
		return -sizes[sizeOf(e.lease.Key)]
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.node.CreateRevision(), b.node.CreateRevision()),
			strings.Compare(a.node.Name, b.node.Name))
	})
	return all
}

func sizeOf(k lease.Key) [2]int { return [2]int{k.V4.Bits(), k.V6.Bits()} }

// sortLeases orders by Key.String(), and calls it once for each.
func sortLeases(leases []*lease.Lease) {
	type named struct {
		name  string
		lease *lease.Lease
	}
	all := make([]named, len(leases))
	for i, l := range leases {
		all[i] = named{l.Key.String(), l}
	}
	slices.SortFunc(all, func(a, b named) int { return strings.Compare(a.name, b.name) })
	for i := range all {
		leases[i] = all[i].lease
	}
}
