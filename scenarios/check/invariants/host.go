package invariants

import (
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/backend/hostgw"
	"github.com/flanneld/flannel/core/backend/udp"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/backend/wireguard"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// checkOp checks that a daemon changes only its own devices, objects on them, and
// routes in the overlay's networks. The route before had the op's key.
func (i *Invariants) checkOp(n *Node, op dataplane.Op, before dataplane.Route) {
	foreign := func(why string) { i.broken("foreign-untouched", "%s did %q, %s", n.name, op, why) }
	switch o := op.Object.(type) {
	case dataplane.Addr:
		if !i.inNetworks(o.Prefix) && !i.prunes(op.Verb, o.Link) {
			foreign("an address outside the overlay")
		}
	case dataplane.Neigh:
		if !i.inNetworks(netip.PrefixFrom(o.IP, o.IP.BitLen())) && !i.prunes(op.Verb, o.Link) {
			foreign("a neighbour outside the overlay")
		}
	case dataplane.NextHop:
		if !i.inNetworks(netip.PrefixFrom(o.ID.Addr(), 32)) && !i.prunes(op.Verb, o.Link) {
			foreign("for a route outside the overlay")
		}
		return
	case dataplane.Sysctl:
		if i.about.IPForward && (o == dataplane.Forwarding(cidr.V4) || o == dataplane.Forwarding(cidr.V6)) {
			return
		}
	case dataplane.Route:
		i.checkRouteOp(n, op.Verb, o, before, foreign)
		return
	case dataplane.Policy:
		switch {
		case !i.inNetworks(o.Src) || !i.inNetworks(o.Dst):
			foreign("outside the overlay")
		case !oracle.OurPolicy(o):
			foreign("without our mark")
		}
		return
	}
	if device := deviceOf(op.Object); !i.links[device] && !(op.Verb == dataplane.Delete && i.isLeft(n, device)) {
		foreign("on a device that is not flannel's")
	}
}

// prunes reports whether an op of one of the host's networks removes something with our mark from its device: another
// network may have had the device before.
func (i *Invariants) prunes(verb dataplane.Verb, device string) bool {
	return i.about.Apart != nil && verb == dataplane.Delete && i.links[device]
}

// isLeft reports whether one of the host's networks may take a device for its own, by the device's name and a single
// address in the network: another network that is gone may have left it.
func (i *Invariants) isLeft(n *Node, device string) bool {
	if i.about.Apart == nil || n.observed == nil {
		return false
	}
	for a := range n.observed.Addrs {
		if a.Link == device && a.Prefix.IsSingleIP() && i.inNetworks(a.Prefix) {
			return all.NamesDevice(device)
		}
	}
	return false
}

// deviceOf returns the device that an object is, or is on, or "".
func deviceOf(o dataplane.Object) string {
	switch o := o.(type) {
	case dataplane.Link:
		return o.Name
	case dataplane.Addr:
		return o.Link
	case dataplane.Route:
		return o.Link
	case dataplane.NextHop:
		return o.Link
	case dataplane.Neigh:
		return o.Link
	case dataplane.FDBEntry:
		return o.Link
	case dataplane.Sysctl:
		return o.Link
	case dataplane.Proxy:
		return o.Link
	case dataplane.Peer:
		return o.Link
	case dataplane.WGPeer:
		return o.Link
	}
	return ""
}

func (i *Invariants) checkRouteOp(n *Node, verb dataplane.Verb, r, before dataplane.Route, foreign func(string)) {
	changed := !n.connected[before.RouteKey] && n.observed.Routes.Has(before.RouteKey) // since the look
	// Upstream sets no protocol (interop 6.0).
	upstream := before.Protocol == dataplane.ProtocolBoot && i.links[before.Link]
	switch {
	case !i.inNetworks(r.Dst) && !(i.prunes(verb, r.Link) && r.Protocol == dataplane.Protocol):
		foreign("outside the overlay")
	case verb != dataplane.Delete && r.Protocol != dataplane.Protocol:
		foreign("without our mark")
	case !before.Dst.IsValid() || before.Protocol == dataplane.Protocol || upstream || verb == dataplane.Create:
		return // a Create replaces nothing
	case before.Protocol == dataplane.ProtocolKernel:
		if !changed {
			foreign("where the kernel's own route was: " + before.String())
		}
	case !i.leased(n, r.Dst):
		foreign("in the place of a foreign route, for no peer's subnet: " + before.String())
	}
}

// leased reports whether a destination is the subnet of a record that the node
// knows, or of one that it may have missed: for some time a node keeps peers whose
// records an accident of the store or a stale read has hidden.
func (i *Invariants) leased(n *Node, dst netip.Prefix) bool {
	snap := n.client.View().Snapshot
	if snap == nil {
		return true // the invariants do not know the state that a former run saved
	}
	leads := func(key lease.Key) bool { return key.V4 == dst || key.V6 == dst }
	for _, l := range snap.Leases {
		if leads(l.Key) {
			return true
		}
	}
	missed := func(h *history) bool { return leads(h.key) && (!h.gone || i.elapsed()-h.goneAt < keptBound) }
	return slices.ContainsFunc(slices.Collect(maps.Values(i.records)), missed) ||
		slices.ContainsFunc(slices.Collect(maps.Values(i.onNodes)), missed)
}

// checkPlan checks that a node removes a peer only once a complete snapshot,
// which follows the store, does not hold the peer's record.
func (i *Invariants) checkPlan(n *Node, plan []dataplane.Op) {
	var gone []dataplane.Op
	kept := map[netip.Prefix]bool{}
	for _, op := range plan {
		if op.Verb == dataplane.Delete {
			gone = append(gone, op)
			continue
		}
		for _, subnet := range peerSubnets(op.Object) {
			kept[subnet] = true
		}
	}
	for _, op := range gone {
		for _, subnet := range peerSubnets(op.Object) {
			if !kept[subnet] && !n.hasOtherWay(op.Object, subnet) {
				i.checkRemoval(n, op.Object, subnet)
			}
		}
	}
}

// hasOtherWay reports whether the host also leads packets to a peer's subnet without an
// object: the node leaves a previous backend, or has a route for the whole network beside a route.
func (n *Node) hasOtherWay(o dataplane.Object, subnet netip.Prefix) bool {
	if n.observed == nil {
		return false
	}
	left := "" // the device of a peer
	switch o := o.(type) {
	case dataplane.Peer:
		left = o.Link
	case dataplane.WGPeer:
		left = o.Link
	}
	for _, r := range n.observed.Routes.All {
		leads := r.Dst == subnet && r.Link != left && r.Protocol == dataplane.Protocol && r.Kind != dataplane.Blackhole
		if leads && o != dataplane.Object(r) {
			return true
		}
	}
	for k := range n.observed.Peers.All {
		if k.Subnet == subnet && k.Link != left {
			return true
		}
	}
	for k, p := range n.observed.WGPeers.All {
		if p.Allows(subnet) && k.Link != left {
			return true
		}
	}
	return false
}

// peerSubnets returns the subnets of peers that an object leads to.
func peerSubnets(o dataplane.Object) []netip.Prefix {
	switch o := o.(type) {
	case dataplane.Route:
		if o.Kind != dataplane.Blackhole {
			return []netip.Prefix{o.Dst}
		}
	case dataplane.Peer:
		return []netip.Prefix{o.Subnet}
	case dataplane.WGPeer:
		return slices.Collect(o.AllowedIPs)
	case dataplane.Command:
		if o.Subnet.IsValid() {
			return []netip.Prefix{o.Subnet}
		}
	case dataplane.Policy:
		if o.Action == dataplane.Protect && o.Dir == dataplane.PolicyOut {
			return []netip.Prefix{o.Dst}
		}
	case dataplane.Conn:
		return []netip.Prefix{o.RemoteNet}
	}
	return nil
}

func (i *Invariants) checkRemoval(n *Node, o dataplane.Object, subnet netip.Prefix) {
	view := n.client.View()
	if !view.Synced {
		i.broken("peers-stay", "%s is about to delete %q, though it does not know what the store holds (%v)", n.name,
			o, view.Err)
		return
	}
	if n.between() || (i.bad || n.refused) && n.config != i.text {
		return // the node has no config, or an older one
	}
	for _, l := range view.Snapshot.Leases {
		if n.isOutdated(o, l) {
			continue
		}
		if (l.Key.V4 == subnet || l.Key.V6 == subnet) && i.mustServe(n, l, view.Snapshot) {
			i.broken("peers-stay", "%s is about to delete %q, though its snapshot of revision %d holds the record of %s at %s",
				n.name, o, view.Snapshot.Revision, owner(l.Attrs), l.Key)
		}
	}
	n.checkKept(o, subnet, view.Snapshot)
}

// mustServe reports whether a record certainly belongs to a peer that the node
// must serve.
func (i *Invariants) mustServe(n *Node, l *lease.Lease, snap *lease.Snapshot) bool {
	network := n.network()
	published := network.Backend.Type
	if published == udp.Type {
		published = backend.AnyType // the node publishes no type either
	}
	if l.Attrs.BackendType != published ||
		!usable(l) ||
		!n.reaches(l) ||
		!n.offeredBy(l) ||
		network.Backend.Type == udp.Type && n.lostToAnother(snap) ||
		n.hasVTEP(l) ||
		l.Key.Overlaps(n.last) ||
		l.Key.Overlaps(n.resumed) ||
		l.Key.Overlaps(n.key) {
		return false
	}
	for _, p := range []netip.Prefix{l.Key.V4, l.Key.V6} {
		if p.IsValid() && !inForce(network, p) {
			return false
		}
	}
	for _, f := range cidr.Families {
		if a := l.Attrs.IP(f); a.IsValid() && inForce(network, netip.PrefixFrom(a, a.BitLen())) {
			return false // the tunnel would lead into itself
		}
	}
	for _, a := range append(n.addresses(), n.published.seen()...) {
		if a == l.Attrs.PublicIP || a == l.Attrs.PublicIPv6 {
			return false
		}
	}
	for _, o := range snap.Leases {
		if o != l && (o.Key.Overlaps(l.Key) || o.Attrs.Equal(l.Attrs)) {
			return false
		}
		// Of two records with one VTEP nodes serve the older one; a node's own counts whatever its age.
		if o != l && (sameVTEP(o, l) || sameWireGuard(o, l)) && (o.CreateRevision < l.CreateRevision || o.Key == n.key) {
			return false
		}
	}
	return true
}

// lostToAnother reports whether a snapshot shows another node's record for the subnet that the node held last. Then
// the node serves no peer by udp: without a subnet it has no packet path.
func (n *Node) lostToAnother(snap *lease.Snapshot) bool {
	return !n.holds && slices.ContainsFunc(snap.Leases, func(l *lease.Lease) bool {
		return l.Key.V4.Overlaps(n.last.V4) && owner(l.Attrs) != n.lastAddr && !slices.Contains(n.addresses(), owner(l.Attrs))
	})
}

// hasVTEP reports whether a record has the MAC or the public key of one of the node's own devices, as
// after the node itself wrote it under another node's address.
func (n *Node) hasVTEP(l *lease.Lease) bool {
	if n.observed == nil {
		return false
	}
	public, _, wireguards := oracle.WireGuardData(*l)
	for _, link := range n.observed.Links {
		own, ok := link.Params.(dataplane.WireGuard)
		if wireguards && ok && own.PublicKey == public {
			return true
		}
	}
	for _, f := range cidr.Families {
		mac, err := dataplane.ParseMAC(oracle.VTEPMAC(*l, f))
		for _, link := range n.observed.Links {
			if err == nil && link.MAC == mac && n.all.links[link.Name] {
				return true
			}
		}
	}
	return false
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

// sameWireGuard reports whether two records have a public key in common.
func sameWireGuard(a, b *lease.Lease) bool {
	one, _, ok := oracle.WireGuardData(*a)
	two, _, ok2 := oracle.WireGuardData(*b)
	return ok && ok2 && one == two
}

// usable reports whether a record says where to send packets. The objects of a
// peer go when another host takes over its record and publishes less.
func usable(l *lease.Lease) bool {
	for _, f := range cidr.Families {
		if !l.Key.Of(f).IsValid() {
			continue
		}
		if !l.Attrs.IP(f).IsGlobalUnicast() {
			return false
		}
		if _, _, ok := oracle.WireGuardData(*l); l.Attrs.BackendType == wireguard.Type && !ok {
			return false
		}
		mac, err := net.ParseMAC(oracle.VTEPMAC(*l, f))
		if l.Attrs.BackendType == vxlan.Type && (err != nil || mac[0]&1 != 0) {
			return false
		}
	}
	return true
}

// reaches reports whether the host can have routes to a host-gw peer: the kernel
// refuses a gateway that is on none of the host's segments.
func (n *Node) reaches(l *lease.Lease) bool {
	if l.Attrs.BackendType != hostgw.Type {
		return true
	}
	for _, f := range cidr.Families {
		if !l.Key.Of(f).IsValid() {
			continue
		}
		ip := l.Attrs.IP(f)
		if _, direct := uplink.Direct(n.Facts(ip).Routes, ip); !direct {
			return false
		}
	}
	return true
}

// network returns the config in force, or the former one that the node keeps because its host refuses that.
func (n *Node) network() config.Network {
	if n.refused {
		network, _, _ := usableConfig(n.config)
		return network
	}
	return n.all.config
}

// offeredBy reports whether a peer's record offers the backend of the config that the node has, where the node keeps
// no other one: the operator has ended the change, or the host has several networks, or it refuses a later config. The
// peers that started again with such a config offer no previous backend. A record of a host that is no node may offer
// what no node has ever run.
func (n *Node) offeredBy(l *lease.Lease) bool {
	ofNode := slices.ContainsFunc(n.all.order, func(name string) bool { return n.all.hasAddress(name, owner(l.Attrs)) })
	if ofNode && !n.refused && n.all.about.Apart == nil && n.all.config.Formerly == nil {
		return true // the node keeps previous backends
	}
	network := n.network()
	spec, _ := all.Find(network.Backend.Type)
	id, err := spec.Identity(network.Backend, backend.FamiliesOf(network))
	return err == nil && backends.Offers(&l.Attrs, id)
}

// inForce reports whether a subnet is in the network of a config.
func inForce(c config.Network, p netip.Prefix) bool {
	for _, network := range []netip.Prefix{c.V4.Network, c.V6.Network} {
		if network.IsValid() && network.Bits() <= p.Bits() && network.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
