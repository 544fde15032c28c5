package identity

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
)

// Identity holds the addresses and leases that count as the node's own, as of a moment.
type Identity struct {
	IPv6Only bool           // the network has no IPv4: the IPv6 address tells whose a record is
	Public   lease.ByFamily // the addresses that the node publishes
	Given    lease.ByFamily // those given by flags
	Before   lease.ByFamily // those that the last run published
	Uplink   string         // the name of the uplink
	Links    []driver.Link  // of the host

	Assigned lease.Key // the subnet that the datastore assigns to the node; invalid: nodes choose theirs
	Held     Lease     // the lease that the node holds
	Self     Lease     // for which the host is programmed
	Saved    Lease     // of the last run
	Written  [2]Lease  // updates that the datastore has not answered, or not yet
}

// Lease is a subnet and what the node's record of it says.
type Lease struct {
	Key   lease.Key
	Attrs *lease.Attrs // nil: there is none
}

// is reports whether a record is that of the lease, by its subnet and its owner.
func (l Lease) is(r *lease.Lease) bool {
	return l.Attrs != nil && r.Key == l.Key && SameOwner(&r.Attrs, l.Attrs)
}

// SameOwner reports whether two records are of one owner: the IPv4 address tells, and else the IPv6 address.
func SameOwner(a, b *lease.Attrs) bool {
	return a.PublicIP == b.PublicIP && (a.PublicIP.IsValid() || a.PublicIPv6 == b.PublicIPv6)
}

// Owns reports whether a record is the node's own, of this run or an earlier one.
func (i *Identity) Owns(r *lease.Lease) bool {
	if i.Assigned.IsValid() {
		return r.Key == i.Assigned
	}
	// Until the node publishes a changed address, its record has the old one.
	return i.Held.is(r) || i.Self.is(r) || i.Publishes(&r.Attrs) || i.Wrote(r)
}

// Owned reports whether a record is the node's own, or what the last run saved as its own. The record of
// the lease is the node's own even if the same snapshot assigns another subnet to it.
func (i *Identity) Owned(r *lease.Lease) bool { return i.Owns(r) || i.Held.is(r) || i.Saved.is(r) }

// Wrote reports whether a record holds the content of an update that the store has not answered, or not yet. The host
// may have changed its address since.
func (i *Identity) Wrote(r *lease.Lease) bool {
	return slices.ContainsFunc(i.Written[:], func(w Lease) bool {
		return w.Attrs != nil && w.Key == r.Key && w.Attrs.Equal(r.Attrs)
	})
}

// Publishes reports whether a record has the node's public address. The IPv4 address decides while IPv4 is on, and else
// the IPv6 address. A record without that address may be the node's from before the config switched a family on or off.
func (i *Identity) Publishes(a *lease.Attrs) bool {
	f, other := cidr.V4, cidr.V6
	if i.IPv6Only {
		f, other = other, f
	}
	if ip := a.IP(f); ip.IsValid() {
		// This run may have chosen another address than the last one, while the uplink has both.
		return ip == i.Public.Of(f) || ip == i.Before.Of(f) && i.onUplink(ip)
	}
	return a.IP(other).IsValid() && i.hasAddress(other, a.IP(other))
}

// hasAddress reports whether an address is the host's: the one it publishes, or in
// a family that is off, the one given by flag or any on the uplink.
func (i *Identity) hasAddress(f cidr.Family, ip netip.Addr) bool {
	switch {
	case i.Public.Of(f).IsValid():
		return ip == i.Public.Of(f)
	case i.Given.Of(f).IsValid():
		return ip == i.Given.Of(f)
	}
	return i.onUplink(ip)
}

func (i *Identity) onUplink(ip netip.Addr) bool {
	return slices.ContainsFunc(i.Links, func(l driver.Link) bool {
		return l.Name == i.Uplink && slices.ContainsFunc(l.Addrs, func(a driver.LinkAddr) bool {
			return a.Prefix.Addr() == ip
		})
	})
}
