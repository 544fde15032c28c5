package node

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/identity"
)

// identity returns what counts as the node's own now.
func (n *Node) identity() *identity.Identity {
	l, h := &n.lease, &n.host
	i := &identity.Identity{
		IPv6Only: !n.network.config.V4.Enabled(),
		Public:   lease.ByFamily{V4: h.uplink.Public(cidr.V4), V6: h.uplink.Public(cidr.V6)},
		Given:    lease.ByFamily{V4: parsed(n.opts.Uplink.PublicIP), V6: parsed(n.opts.Uplink.PublicIPv6)},
		Uplink:   h.uplink.Link, Links: h.facts.Links,
		Self: identity.Lease{Key: l.self.Key, Attrs: &l.self.Attrs}, Written: l.written(),
	}
	if a := n.assigned(); a != nil {
		i.Assigned = a.Key
	}
	if g := l.grant; g != nil {
		i.Held = identity.Lease{Key: g.Key, Attrs: &g.Attrs}
	}
	if s := n.store.saved; s != nil {
		i.Saved = identity.Lease{Key: s.Self.Key, Attrs: &s.Self.Attrs}
		i.Before = lease.ByFamily{V4: s.Self.Attrs.IP(cidr.V4), V6: s.Self.Attrs.IP(cidr.V6)}
	}
	return i
}

// parsed returns the address that a flag gives; invalid: it gives none.
func parsed(text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return addr
}

// written returns the updates of the node's records that the store has not answered, or not yet.
func (l *leaseState) written() (updates [2]identity.Lease) {
	for i, r := range []*Request{&l.request, &l.unknown} {
		if r.Verb == Update {
			updates[i] = identity.Lease{Key: r.Grant.Key, Attrs: &r.Attrs}
		}
	}
	return updates
}

// wrote reports whether a record holds the content of such an update.
func (l *leaseState) wrote(r *lease.Lease) bool {
	i := identity.Identity{Written: l.written()}
	return i.Wrote(r)
}
