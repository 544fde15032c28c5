package node

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// This file holds the differences for a datastore that assigns the subnets
// itself (docs/adr 0012). The node takes the assigned subnet instead of choosing
// one. It knows its record by the subnet, not by the address. No other node can
// take the subnet. An operator may set the node's public address in the
// datastore.

// assigned returns the store's assignment for this node, or nil if nodes choose
// their subnets.
func (n *Node) assigned() *lease.Assigned { return n.store.view.Assigned }

// fits returns an error if a config does not allow a subnet for the node.
func (n *Node) fits(network config.Network, key lease.Key) error {
	if n.assigned() != nil {
		return alloc.Inside(network, key)
	}
	return alloc.Compatible(network, key)
}

// nodeIPs returns the addresses of the node object. While the datastore does not know
// them, it returns the host's former addresses: those in use, or those of the last run.
func (n *Node) nodeIPs(a *lease.Assigned) [2]netip.Addr {
	var addrs [2]netip.Addr
	for _, f := range cidr.Families {
		switch s := n.store.saved; {
		case a.Node != "":
			addrs[f] = a.Internal.Of(f)
		case n.host.uplink.Link != "":
			addrs[f] = n.host.uplink.Addr(f)
		case s != nil:
			addrs[f] = s.addr(f)
		}
	}
	return addrs
}

// waitsForAddress reports whether the node's address comes from the store, from an
// operator or from the node object. If it cannot be used, the node waits for another one.
func (n *Node) waitsForAddress() bool {
	return n.assigned().Overrides() || n.opts.Uplink.FromNode
}

// takeAssigned takes the assigned subnet. Without one, it waits for the next view.
func (n *Node) takeAssigned() {
	a, l := n.assigned(), &n.lease
	err := n.unassigned()
	if err != nil {
		l.trouble = err
		n.once(Warning, "no-subnet", err.Error())
		return
	}
	n.log.Over("no-subnet")
	if own, ok := findLease(n.store.snap, a.Key); ok && own.Attrs.Equal(l.attrs) {
		n.hold(lease.Grant{Lease: own})
		return
	}
	n.request(Request{Verb: Create, Key: a.Key, Attrs: l.attrs})
}

// unassigned returns why the assignment cannot be taken, or nil.
func (n *Node) unassigned() error {
	a := n.assigned()
	if a.Err != nil {
		return a.Err
	}
	if !a.Key.IsValid() {
		return errors.New("no subnet is assigned to this node")
	}
	return n.fits(n.network.config, a.Key)
}

// followAssignment gives up a subnet that is no longer assigned to the node.
func (n *Node) followAssignment() {
	a, l := n.assigned(), &n.lease
	if a == nil {
		return
	}
	if a.Err == nil {
		n.log.Over("assignment")
	} else if a.Key.IsValid() {
		n.once(Warning, "assignment", a.Err.Error())
	}
	if l.grant == nil || a.Key == l.grant.Key {
		return
	}
	if !a.Key.IsValid() {
		n.lost(fmt.Errorf("lease %s: %w", l.grant.Key, a.Err))
		return
	}
	n.event(Warning, "lease-reassigned",
		fmt.Sprintf("subnet %s is assigned to this node now, no longer %s", a.Key, l.grant.Key))
	n.drop()
}

// checkAssigned compares our record with our last write. If another program has
// changed or removed the record, it is still ours, and the node repairs it.
func (n *Node) checkAssigned(rec lease.Lease, exists bool) {
	l := &n.lease
	asWritten := exists && rec.ModRevision <= l.grant.ModRevision
	missing := !exists && l.grant.Attrs.Equal(lease.Attrs{}) // known, and waiting for its repair
	switch {
	case exists && rec.ModRevision < l.grant.ModRevision && !rec.Attrs.Equal(l.grant.Attrs):
		n.startOver(n.store.snap, fmt.Sprintf("at revision %d the datastore lacks our write of revision %d",
			n.store.snap.Revision, l.grant.ModRevision))
	case asWritten || missing:
		return
	case exists && (rec.Attrs.Equal(l.grant.Attrs) || l.wrote(&rec) || rec.Attrs.Equal(l.attrs)):
		l.grant.ModRevision = rec.ModRevision
		l.agreesOn(rec.Attrs)
	default:
		l.grant.ModRevision, l.grant.Attrs = n.store.snap.Revision, rec.Attrs
		n.disputed(fmt.Errorf("another program changed or removed our record %s", l.grant.Key))
	}
}
