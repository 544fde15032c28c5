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

// Table is all nodes of a cluster, by name: what became of one name is one
// thing after the other, whatever the node object's identity or subnet
// (interop K2).
type Table struct {
	self     string
	doc      lease.Document
	network  config.Network
	nodes    map[string]*entry
	revision int64 // of the last change that concerns flannel
	turn     int   // counts what was set
	view     *view // what follows from nodes; nil: to be made
	own      own
}

// entry is a node and what it is read as.
type entry struct {
	node     Node
	seen     int64       // revision of the last thing heard of it
	turn     int         // when that was, by the table's count; 0: in a listing
	lease    lease.Lease // good, unless its key is invalid; of an earlier value, if flaw says so
	flaw     string      // why the present value is no lease
	modified int64       // revision of the present value
}

type view struct {
	snap     *lease.Snapshot
	assigned *lease.Assigned
}

// NewTable returns the empty table of one node, by name, in a network. The
// config goes into the snapshots as it is.
func NewTable(self string, doc lease.Document, network config.Network) *Table {
	return &Table{self: self, doc: doc, network: network, nodes: map[string]*entry{}}
}

// SetConfig puts another config in force: all nodes are read anew by it.
func (t *Table) SetConfig(doc lease.Document, network config.Network) {
	t.doc, t.network, t.view = doc, network, nil
	t.reread(t.nodes)
}

// reread reads nodes by the present config.
func (t *Table) reread(nodes map[string]*entry) {
	for name, old := range nodes {
		e := t.read(old.node, old.modified, nil)
		e.seen, e.turn = old.seen, old.turn
		// A value that could not be read before leaves the last good one in
		// force, if that still is the node's subnet.
		key, err := old.node.key(t.network)
		if e.flaw != "" && old.flaw != "" && err == nil && key == old.lease.Key {
			e.lease = old.lease
		}
		nodes[name] = e
	}
}

// Set takes a node in as of a revision, and reports whether that is news.
func (t *Table) Set(n Node, revision int64) bool {
	old := t.nodes[n.Name]
	t.turn++
	if old != nil {
		if revision <= old.seen {
			return false // overtaken by the answer to a request of ours
		}
		if old.seen, old.turn = revision, t.turn; old.node == n {
			return false
		}
	}
	e := t.read(n, revision, old)
	t.nodes[n.Name], e.turn = e, t.turn
	t.changed(max(t.revision, revision))
	return true
}

// Delete takes the end of a node in, and reports whether that is news.
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

// List begins a complete reading. The table stays as it is until the end.
func (t *Table) List() *Listing {
	return &Listing{table: t, nodes: make(map[string]*entry, len(t.nodes)), since: t.turn, doc: t.doc.Revision}
}

// Add takes a node of the reading in.
func (l *Listing) Add(n Node, revision int64) {
	old := l.table.nodes[n.Name]
	if old != nil && old.node == n {
		// Not its revision: that may have begun anew.
		e := *old
		e.seen, e.turn = revision, 0
		l.nodes[n.Name] = &e
		return
	}
	l.nodes[n.Name], l.news = l.table.read(n, revision, old), true
}

// End puts what was read, as of a revision, in the place of what was known,
// and reports whether anything has changed.
func (l *Listing) End(revision int64) bool {
	t := l.table
	if l.doc != t.doc.Revision {
		t.reread(l.nodes)
	}
	first := t.revision == 0
	news := first || l.news || len(l.nodes) != len(t.nodes) || revision < t.revision
	for name, e := range t.nodes {
		// The answer to a request of ours may be newer than what was read. What was
		// known before the reading is not: revisions may have begun anew.
		if now := l.nodes[name]; now != nil && e.turn > l.since && e.seen > now.seen {
			l.nodes[name] = e
		}
	}
	if t.nodes = l.nodes; news {
		t.changed(revision)
	}
	return news
}

func (t *Table) changed(revision int64) { t.revision, t.view = revision, nil }

// read makes an entry. A value that cannot be read leaves the last good one in
// force, as long as it is the same node with the same subnet: its owner is
// most likely still where it was. Our own is put right instead.
func (t *Table) read(n Node, revision int64, old *entry) *entry {
	e := &entry{node: n, seen: revision, modified: revision}
	if !n.participates() {
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

// Snapshot is what the nodes say now. It is made anew only after a change.
func (t *Table) Snapshot() (*lease.Snapshot, *lease.Assigned) {
	if t.view == nil {
		t.view = &view{t.snapshot(), t.assigned()}
	}
	return t.view.snap, t.view.assigned
}

// Revision is that of the last change that concerns flannel; 0: nothing is known.
func (t *Table) Revision() int64 { return t.revision }

// Node returns a node as it was last heard of.
func (t *Table) Node(name string) (Node, bool) {
	if e := t.nodes[name]; e != nil {
		return e.node, true
	}
	return Node{}, false
}

func (t *Table) snapshot() *lease.Snapshot {
	s := &lease.Snapshot{Revision: t.revision, Config: t.doc, Leases: make([]*lease.Lease, 0, len(t.nodes))}
	var taken [2]bart.Table[string] // the subnets, by family, and whose they are
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

// Own is the lease that our own node's annotations make.
func (t *Table) Own() (lease.Lease, bool) {
	if e := t.nodes[t.self]; e != nil && e.lease.Key.IsValid() {
		return e.lease, true
	}
	return lease.Lease{}, false
}

// refuse says why a lease that is well-formed is nonsense beside those before it.
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

// ranked are the nodes by who is believed first where two cannot both be
// right: ourselves, then those whose subnets have the usual size, so that one
// that claims half of the network does not drive everybody out, and
// of them the older.
func (t *Table) ranked() []*entry {
	all := make([]*entry, 0, len(t.nodes))
	sizes := map[[2]int]int{}
	for _, e := range t.nodes {
		if all = append(all, e); e.lease.Key.IsValid() {
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

// sortLeases orders by Key.String(), each spelt out but once.
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
