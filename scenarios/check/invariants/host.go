package invariants

import (
	"net"
	"net/netip"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/hostgw"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// checkOp says what a daemon may do to a host: to devices of its own, what is
// on them, and routes in the overlay's networks. Before is the route that stood
// under the op's key.
func (i *Invariants) checkOp(n *Node, op dataplane.Op, before dataplane.Route) {
	foreign := func(why string) { i.broken("foreign-untouched", "%s did %q, %s", n.name, op, why) }
	link := ""
	switch o := op.Object.(type) {
	case dataplane.Link:
		link = o.Name
	case dataplane.Addr:
		link = o.Link
		if o.Prefix.Addr().Is4() && !i.inNetworks(o.Prefix) {
			foreign("an address outside the overlay")
		}
	case dataplane.Neigh:
		link = o.Link
	case dataplane.FDBEntry:
		link = o.Link
	case dataplane.Sysctl:
		link = o.Link
	case dataplane.Proxy:
		link = o.Link
	case dataplane.Peer:
		link = o.Link
	case dataplane.Route:
		i.checkRouteOp(n, op.Verb, o, before, foreign)
		return
	}
	if !i.links[link] {
		foreign("on a device that is not flannel's")
	}
}

func (i *Invariants) checkRouteOp(n *Node, verb dataplane.Verb, r, before dataplane.Route, foreign func(string)) {
	switch {
	case !i.inNetworks(r.Dst):
		foreign("outside the overlay")
	case verb != dataplane.Delete && r.Protocol != dataplane.Protocol:
		foreign("without our mark")
	case !before.Dst.IsValid() || before.Protocol == dataplane.Protocol:
	case before.Protocol == dataplane.ProtocolKernel && !n.connected[before.RouteKey]: // it is new
	case before.Protocol == dataplane.ProtocolKernel:
		foreign("where the kernel's own route was: " + before.String())
	case before.Protocol == dataplane.ProtocolBoot && i.links[before.Link]: // upstream's (interop 6.0)
	case !i.leased(n, r.Dst):
		foreign("in the place of a foreign route, for no peer's subnet: " + before.String())
	}
}

// leased reports whether a destination is a subnet of a record that the node
// knows of.
func (i *Invariants) leased(n *Node, dst netip.Prefix) bool {
	snap := n.client.View().Snapshot
	if snap == nil {
		return true // of what a former run saved nothing is known here
	}
	for _, l := range snap.Leases {
		if key := l.Key; key.V4 == dst || key.V6 == dst {
			return true
		}
	}
	return false
}

// checkPlan says when a node may remove a peer: once a complete snapshot, that
// follows the store, does not hold its record.
func (i *Invariants) checkPlan(n *Node, plan []dataplane.Op) {
	var gone []dataplane.Op
	kept := map[netip.Prefix]bool{}
	for _, op := range plan {
		subnet := peerSubnet(op.Object)
		switch {
		case !subnet.IsValid():
		case op.Verb == dataplane.Delete:
			gone = append(gone, op)
		default:
			kept[subnet] = true
		}
	}
	for _, op := range gone {
		if subnet := peerSubnet(op.Object); !kept[subnet] {
			i.checkRemoval(n, op.Object, subnet)
		}
	}
}

// peerSubnet is the subnet that an object leads to, if there is a peer behind it.
func peerSubnet(o dataplane.Object) netip.Prefix {
	switch o := o.(type) {
	case dataplane.Route:
		if o.Kind != dataplane.Blackhole {
			return o.Dst
		}
	case dataplane.Peer:
		return o.Subnet
	}
	return netip.Prefix{}
}

func (i *Invariants) checkRemoval(n *Node, o dataplane.Object, subnet netip.Prefix) {
	view := n.client.View()
	if !view.Synced {
		i.broken("peers-stay", "%s is about to delete %q, though it does not know what the store holds (%v)", n.name, o, view.Err)
		return
	}
	if i.bad {
		return
	}
	for _, l := range view.Snapshot.Leases {
		if (l.Key.V4 == subnet || l.Key.V6 == subnet) && i.mustServe(n, l, view.Snapshot) {
			i.broken("peers-stay", "%s is about to delete %q, though its snapshot of revision %d holds the record of %s at %s",
				n.name, o, view.Snapshot.Revision, owner(l.Attrs), l.Key)
		}
	}
}

// mustServe reports whether a record is beyond doubt that of a peer that the
// node must serve.
func (i *Invariants) mustServe(n *Node, l *lease.Lease, snap *lease.Snapshot) bool {
	published := i.config.Backend.Type
	if published == udp.Type {
		published = backend.AnyType // which is also what it publishes itself
	}
	if l.Attrs.BackendType != published || !usable(l) || !n.reaches(l) || l.Key.Overlaps(n.last) || l.Key.Overlaps(n.key) {
		return false
	}
	for _, p := range []netip.Prefix{l.Key.V4, l.Key.V6} {
		if p.IsValid() && !i.inForce(p) {
			return false
		}
	}
	for _, a := range n.addresses() {
		if a == l.Attrs.PublicIP || a == l.Attrs.PublicIPv6 {
			return false
		}
	}
	for _, o := range snap.Leases {
		if o != l && (o.Key.Overlaps(l.Key) || o.Attrs.Equal(l.Attrs)) {
			return false
		}
		// Of two records with one VTEP the older is served; our own counts whatever its age.
		if o != l && sameVTEP(o, l) && (o.CreateRevision < l.CreateRevision || o.Key == n.key) {
			return false
		}
	}
	return true
}

// sameVTEP reports whether two records have a VTEP's MAC in common.
func sameVTEP(a, b *lease.Lease) bool {
	for _, f := range cidr.Families {
		if mac := oracle.VTEPMAC(*a, f); mac != "" && mac == oracle.VTEPMAC(*b, f) {
			return true
		}
	}
	return false
}

// usable reports whether a record says where packets are to be sent. What led to
// a peer goes when another takes over its record and says less.
func usable(l *lease.Lease) bool {
	for _, f := range cidr.Families {
		if !l.Key.Of(f).IsValid() {
			continue
		}
		if !l.Attrs.IP(f).IsGlobalUnicast() {
			return false
		}
		mac, err := net.ParseMAC(oracle.VTEPMAC(*l, f))
		if l.Attrs.BackendType == vxlan.Type && (err != nil || mac[0]&1 != 0) {
			return false
		}
	}
	return true
}

// reaches reports whether the host can have routes to a host-gw peer: no kernel
// accepts a gateway that is on none of the host's segments.
func (n *Node) reaches(l *lease.Lease) bool {
	if l.Attrs.BackendType != hostgw.Type {
		return true
	}
	facts := n.Facts()
	for _, f := range cidr.Families {
		if _, direct := uplink.Direct(facts.Routes, l.Attrs.IP(f)); l.Key.Of(f).IsValid() && !direct {
			return false
		}
	}
	return true
}

// inForce reports whether a subnet is in the network of the present config.
func (i *Invariants) inForce(p netip.Prefix) bool {
	for _, network := range []netip.Prefix{i.config.V4.Network, i.config.V6.Network} {
		if network.IsValid() && network.Bits() <= p.Bits() && network.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
