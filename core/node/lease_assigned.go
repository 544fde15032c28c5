package node

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/alloc"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// This file is all that differs where the datastore hands the subnets out
// itself (docs/adr 0012): the subnet is not chosen but taken, the own record
// is known by its subnet and not by its address, nobody else can take it, and
// an operator may say in the datastore how peers reach the node.

// assigned is what the store holds for this node; nil: the node chooses.
func (n *Node) assigned() *lease.Assigned { return n.store.view.Assigned }

func (n *Node) parseConfig(data []byte) (config.Network, error) {
	if n.assigned() != nil {
		return config.ParseAssigned(data)
	}
	return config.Parse(data)
}

// fits returns an error if a subnet cannot be the node's own under a config.
func (n *Node) fits(network config.Network, key lease.Key) error {
	if n.assigned() != nil {
		return alloc.Inside(network, key)
	}
	return alloc.Compatible(network, key)
}

// selectUplink chooses the uplink, by the options and by what an operator says
// of this node in the store, which goes before.
func (n *Node) selectUplink() (uplink.Uplink, error) {
	opts, a := n.opts.Uplink, n.assigned()
	if a == nil {
		return uplink.Select(opts, n.network.config, n.host.facts, n.host.uplink)
	}
	for _, f := range cidr.Families {
		if addr := a.Detected.Of(f); addr.IsValid() {
			*[2]*string{&opts.PublicIP, &opts.PublicIPv6}[f] = addr.String()
		}
	}
	up, err := uplink.Select(opts, n.network.config, n.host.facts, n.host.uplink)
	if err != nil {
		return up, err
	}
	for _, f := range cidr.Families {
		if addr := a.Published.Of(f); addr.IsValid() && up.Public(f).IsValid() {
			*[2]*netip.Addr{&up.PublicIP, &up.PublicIPv6}[f] = addr
		}
	}
	return up, nil
}

// overridden reports whether an operator says in the store how peers reach the
// node. If that cannot be, it is mended there: there is no reason to end.
func (n *Node) overridden() bool {
	return !n.assigned().SameAddresses(nil)
}

// takeAssigned takes the subnet that the store has for us. Without one, the
// next view is what to wait for.
func (n *Node) takeAssigned() {
	a, l := n.assigned(), &n.lease
	err := a.Err
	switch {
	case err != nil:
	case !a.Key.IsValid():
		err = errors.New("no subnet is assigned to this node")
	default:
		err = n.fits(n.network.config, a.Key)
	}
	if err != nil {
		l.trouble = err
		n.once(Warning, "no-subnet", err.Error())
		return
	}
	delete(n.said, "no-subnet")
	if own, ok := findLease(n.store.snap, a.Key); ok && own.Attrs.Equal(l.attrs) {
		n.hold(lease.Grant{Lease: own})
		return
	}
	n.request(Request{Verb: Create, Key: a.Key, Attrs: l.attrs})
}

// followAssignment gives a subnet up that is no longer the one assigned.
func (n *Node) followAssignment() {
	a, l := n.assigned(), &n.lease
	if a == nil {
		return
	}
	if a.Err == nil {
		delete(n.said, "assignment")
	} else if a.Key.IsValid() {
		n.once(Warning, "assignment", a.Err.Error())
	}
	switch {
	case l.grant == nil || a.Key == l.grant.Key:
	case !a.Key.IsValid():
		n.lost(fmt.Errorf("lease %s: %w", l.grant.Key, a.Err))
	default:
		n.event(Warning, "lease-reassigned", fmt.Sprintf("subnet %s is assigned to this node now, no longer %s",
			a.Key, l.grant.Key))
		n.drop()
	}
}

// checkAssigned compares our record with what we made it say. Whoever else
// has changed or removed it, it is still ours, and put right again.
func (n *Node) checkAssigned(rec lease.Lease, exists bool) {
	l := &n.lease
	switch {
	case exists && rec.ModRevision < l.grant.ModRevision && !rec.Attrs.Equal(l.grant.Attrs):
		n.startOver(n.store.snap, fmt.Sprintf("at revision %d the datastore lacks our write of revision %d",
			n.store.snap.Revision, l.grant.ModRevision))
	case exists && rec.ModRevision <= l.grant.ModRevision:
	case !exists && l.grant.Attrs.Equal(lease.Attrs{}): // known, and waiting for its time
	case exists && (rec.Attrs.Equal(l.grant.Attrs) || rec.Attrs.Equal(l.sent) || rec.Attrs.Equal(l.attrs)):
		l.grant.ModRevision = rec.ModRevision
		l.agreesOn(rec.Attrs)
	default:
		l.grant.ModRevision, l.grant.Attrs = n.store.snap.Revision, rec.Attrs
		n.disputed(fmt.Errorf("somebody else changed or removed our record %s", l.grant.Key))
	}
}
