package invariants

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/daemon"
)

// noteLook notes, at the begin of a turn, whether a look at the host has just ended.
func (n *Node) noteLook(in node.Input) {
	looked := in.Lanes[node.HostLane].Looked
	n.comparing = looked != nil && looked.Err == nil && !in.Stop
}

// checkDifference is called after every turn of the node. It compares the difference that
// flannelctl diff would show with the look that has just ended: each line has to be true, and
// the lines have to name each object that the look showed missing. If the node looks again at
// once, it has not compared.
func (n *Node) checkDifference(r node.Effects, m daemon.Machine) {
	if !n.comparing || n.Twinned || r.Lanes[node.HostLane].Look != nil || r.Exit != nil {
		return
	}
	n.comparing = false
	shown := named{added: dataplane.NewState()}
	for _, d := range m.Differences() {
		if d.Lane != node.HostLane.String() {
			continue
		}
		for _, l := range d.Lines {
			n.checkLine(l, &shown)
		}
	}
	n.checkNamed(shown, n.hasFollowed(m))
}

// hasFollowed reports whether the node has just said for the first time that it has programmed the
// newest records. While the backend changes, it may wait before it serves a peer by the new one, and
// while the status names a peer that it refuses, the next change may decide for that peer.
func (n *Node) hasFollowed(m daemon.Machine) bool {
	before, snap := n.programmed, n.client.View().Snapshot
	n.programmed = m.Pulse().Programmed
	if n.programmed == before || snap == nil || n.programmed != snap.Revision {
		return false
	}
	status := m.Status()
	return status.Change == nil && len(status.Problems) == 0
}

// named describes the lines of a difference with which a node names objects as missing.
type named struct {
	added   *dataplane.State
	refused []netip.Prefix // the destinations of the routes that the kernel refuses
}

// checkLine checks that the last look showed what a line says. It adds the object to those
// that are named as missing.
func (n *Node) checkLine(l node.Line, shown *named) {
	o, err := dataplane.ParseObject(l.Object)
	if err != nil {
		n.all.broken("diff-is-true", "%s shows a line that cannot be read: %v", n.name, err)
		return
	}
	have, exists := n.observed.Namesake(o)
	switch {
	case l.Sign == "-" && !exists:
		n.all.broken("diff-is-true", "%s shows %s as present, which its last look did not show", n.name, l.Object)
	case l.Sign == "+" && exists && have == o:
		n.all.broken("diff-is-true", "%s shows %s as missing, which its last look showed", n.name, l.Object)
	case l.Sign == "+":
		shown.added.Put(o)
		if route, ok := o.(dataplane.Route); ok && l.Why != "" {
			shown.refused = append(shown.refused, route.Dst)
		}
	}
}

// checkNamed checks that the difference names each object that the records demand and that
// the last look did not show. A node that does not say that it has followed has some time to learn of
// the newest records. What a device can have may depend on its change. Of a peer that the kernel
// refuses, the difference names only the refused object, with the reason.
func (n *Node) checkNamed(shown named, followed bool) {
	f := &n.follows
	learns := f.due != 0 && !followed
	if learns || n.stands() || !n.holds || n.between() || f.snap == nil || f.snap != n.client.View().Snapshot {
		return
	}
	for _, fault := range n.all.hostFaults(n.name) {
		if !strings.HasSuffix(fault, " ops") {
			return // it changes what the host must hold
		}
	}
	seen := func(dataplane.Extent) (*dataplane.State, error) { return n.observed, nil }
	served := *f.snap
	served.Leases = slices.DeleteFunc(slices.Clone(f.snap.Leases), func(l *lease.Lease) bool {
		return slices.Contains(shown.refused, l.Key.V4) || slices.Contains(shown.refused, l.Key.V6)
	})
	asked := f.snap
	if len(shown.refused) > 0 {
		asked = &served
	}
	short, known := n.missingIn(asked, seen)
	if !known {
		return
	}
	for _, text := range short {
		o := lacked(text)
		if o == nil || f.due != 0 && !servesPeer(o) {
			continue
		}
		_, named := shown.added.Namesake(o)
		_, anew := shown.added.Links[deviceOf(o)]
		if !named && !anew {
			n.all.broken("diff-is-true", "%s does not show in its difference that its host lacks an object: %s", n.name, text)
		}
	}
}

// servesPeer reports whether an object is for a peer. The others follow from the node's own record, which a node
// that finds it changed writes again.
func servesPeer(o dataplane.Object) bool {
	switch o.(type) {
	case dataplane.Link, dataplane.Addr, dataplane.Sysctl:
		return false
	}
	return true
}

// lacked returns the object that a host lacks, by the text of the oracle; nil: an object of
// another lane than the host's.
func lacked(text string) dataplane.Object {
	_, object, wrong := strings.Cut(text, ", want ")
	if !wrong {
		object = strings.TrimPrefix(text, "missing ")
	}
	o, err := dataplane.ParseObject(object)
	if err != nil {
		return nil
	}
	switch o := o.(type) {
	case dataplane.IKEDaemon, dataplane.SharedKey, dataplane.Conn, dataplane.Tunnel:
		return nil
	case dataplane.Route:
		if o.Protocol != dataplane.Protocol { // a command of the operator makes it
			return nil
		}
	}
	return o
}
