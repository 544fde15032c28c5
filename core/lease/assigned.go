package lease

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Assigned is this node's part of a datastore that assigns the subnets itself:
// in Kubernetes the pod CIDRs of the node object and an operator's annotations
// (interop 5.2, 5.4). It is immutable once handed out.
type Assigned struct {
	// Key is the subnet to use; invalid while there is none.
	Key Key
	// Err says why there is no key, or what an operator has to fix before the
	// node may publish anything.
	Err error
	// Detected overrides the options --public-ip and --public-ipv6, where valid.
	Detected ByFamily
	// Published overrides the uplink's addresses in the record, where valid.
	Published ByFamily
	// Node names the node object; "" if it has not been read or is gone.
	Node string
	// Internal are the addresses of the host by which the cluster knows it (InternalIP).
	Internal ByFamily
}

// ByFamily is an address of each family; invalid if there is none.
type ByFamily struct{ V4, V6 netip.Addr }

// Of returns the address of one family.
func (b ByFamily) Of(f cidr.Family) netip.Addr {
	return cidr.Pick(f, b.V4, b.V6)
}

// Set replaces the address of one family.
func (b *ByFamily) Set(f cidr.Family, a netip.Addr) { *cidr.Pick(f, &b.V4, &b.V6) = a }

// Overrides reports whether an operator has set an address.
func (a *Assigned) Overrides() bool {
	return a != nil && (a.Detected != ByFamily{} || a.Published != ByFamily{})
}

// SameAddresses reports whether both have the same addresses. Nil has none.
func (a *Assigned) SameAddresses(o *Assigned) bool {
	if a == nil {
		a = &Assigned{}
	}
	if o == nil {
		o = &Assigned{}
	}
	return a.Detected == o.Detected && a.Published == o.Published && a.Internal == o.Internal
}
