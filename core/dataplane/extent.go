package dataplane

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
)

// Extent names the part of a host that a driver must read.
//
// A look returns these objects with their true values, foreign ones too:
//   - the links named, if they exist;
//   - on those links: all permanent global addresses, all permanent
//     neighbours, all permanent "self" FDB entries with a destination or a
//     next-hop object, all WireGuard peers, and the proxy that this driver itself
//     runs, with its peers;
//   - routes of the main table that carry [Protocol], leave through those links
//     or lie inside Networks; for each key the one the kernel would use first;
//   - next-hop objects of IPv4 that carry [Protocol];
//   - the sysctls named, if they exist;
//   - if Policies is set, the IPv4 policies of IPsec whose packets all stay within
//     one of the Networks and that have a [PolicyKey]; none on a kernel without
//     IPsec.
//
// The facts of the look hold the underlay's default routes, and its routes that
// cover an address in Reach. A host may have a million others. The facts also answer
// for each of Keys and Kinds.
type Extent struct {
	Links    []string
	Networks []netip.Prefix
	Sysctls  []Sysctl     // Value is ignored
	Reach    []netip.Addr // in order; never changed, so a driver may keep the list
	Keys     []SecretName // private keys whose public halves the facts must tell
	Kinds    []LinkKind   // the facts must tell which of these the kernel lacks

	// PSKs are the secrets that the config holds. The driver keeps those of the
	// last look in memory alone, for the objects that name them.
	PSKs []Secret

	Policies   bool       // IPsec policies, too
	Passphrase Passphrase // like PSKs, for the keys of IPsec

	// Provider is for a look at a cloud provider's tables. It returns all IPv4 routes of the tables
	// that have to hold the route of the own subnet.
	Provider Provider

	// Again, unless it is nil, lets a look return the routes, next hops, neighbours and FDB
	// entries as the driver's last look did, except those that have the kind and the key of
	// one of these objects, which it reads. A driver that knows of another change reads
	// everything. All other kinds of objects are read in any case.
	Again []Object
}

// Whole returns the extent of a look that reads everything.
func (e Extent) Whole() Extent {
	e.Again = nil
	return e
}

// Equal reports whether both extents name the same, in the same order. It does not compare
// what they read again.
func (e Extent) Equal(o Extent) bool {
	return slices.Equal(e.Links, o.Links) &&
		slices.Equal(e.Networks, o.Networks) &&
		slices.Equal(e.Sysctls, o.Sysctls) &&
		slices.Equal(e.Reach, o.Reach) &&
		slices.Equal(e.Keys, o.Keys) &&
		slices.Equal(e.Kinds, o.Kinds) &&
		slices.Equal(e.PSKs, o.PSKs) &&
		e.Policies == o.Policies &&
		e.Passphrase == o.Passphrase &&
		e.Provider.Equal(o.Provider)
}

// InNetworks reports whether a destination lies inside one of the Networks.
func (e Extent) InNetworks(dst netip.Prefix) bool {
	return cidr.Within(e.Networks, dst)
}

// Reaches reports whether an underlay route to a destination belongs to the
// facts: it is a default route, or covers an address in Reach.
func (e Extent) Reaches(dst netip.Prefix) bool {
	if dst.Bits() == 0 {
		return true
	}
	first, _ := slices.BinarySearchFunc(e.Reach, dst.Masked().Addr(), netip.Addr.Compare)
	return first < len(e.Reach) && dst.Contains(e.Reach[first])
}

// HasPolicy reports whether a look returns the policies with a key.
func (e Extent) HasPolicy(k PolicyKey) bool {
	return e.Policies && slices.ContainsFunc(e.Networks, k.Inside)
}
