package alloc

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

// Holder is a node as the records identify it. It holds one lease in each network and family.
type Holder struct {
	Name  string // of the creator, if that is one node; empty: the address alone counts
	Attrs lease.Attrs
	// Network is the config in force; without one, the IPv4 address counts.
	Network config.Network
}

// Address returns the public address that identifies the node: the IPv4 address, or the IPv6 address in a network
// without IPv4 (interop E9: IPv6-only nodes). It is not valid if the node has none.
func (h Holder) Address() netip.Addr {
	f := cidr.V4
	if h.Network.V6.Enabled() && !h.Network.V4.Enabled() || !isHost(h.Attrs.PublicIP) {
		f = cidr.V6
	}
	if ip := h.Attrs.IP(f); isHost(ip) {
		return ip
	}
	return netip.Addr{}
}

// HasAddress reports whether a record has the node's public address.
func (h Holder) HasAddress(a *lease.Attrs) bool {
	ip := h.Address()
	return ip.IsValid() && (ip == a.PublicIP || ip == a.PublicIPv6)
}

func isHost(ip netip.Addr) bool { return ip.IsValid() && !ip.IsUnspecified() }

// Has reports whether a record is the node's.
func (h Holder) Has(l *lease.Lease) bool {
	return h.HasAddress(&l.Attrs) || h.Name != "" && l.Attrs.Creator == h.Name
}

// Other returns the oldest other lease of the node in a family of a key; nil: there is none. A reservation is none,
// nor is a subnet that does not fit the config.
func (h Holder) Other(leases []*lease.Lease, key lease.Key) *lease.Lease {
	var oldest *lease.Lease
	for _, l := range leases {
		counts := l.Key != key && !l.Reserved() && h.Has(l) && h.shares(l.Key, key)
		if counts && (oldest == nil || l.CreateRevision < oldest.CreateRevision) {
			oldest = l
		}
	}
	return oldest
}

// shares reports whether the subnet of a lease, in a family that a key has too, is usable.
func (h Holder) shares(held, key lease.Key) bool {
	usable := held.Filter(func(f cidr.Family, half lease.Key) bool {
		known := h.Network.Of(f).Enabled() || h.Network.Of(cidr.V4).Enabled() || h.Network.Of(cidr.V6).Enabled()
		return key.Of(f).IsValid() && (!known || Compatible(h.Network.Only(f), half) == nil)
	})
	return usable.IsValid()
}
