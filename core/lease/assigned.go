package lease

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Assigned is what a datastore that hands the subnets out itself holds for
// this node, beside the leases: in Kubernetes the pod CIDRs of its node
// object, and what an operator wrote there (interop 5.2, 5.4). It is immutable
// once handed out.
type Assigned struct {
	// Key is the subnet to use; invalid while there is none.
	Key Key
	// Err says why there is none, or what an operator has to mend before the
	// node may publish anything.
	Err error
	// Detected are the addresses to take for those of the uplink that reach
	// the peers, in the place of what the node's own options say; invalid: as they say.
	Detected ByFamily
	// Published are the addresses to publish in the place of the uplink's; invalid: those.
	Published ByFamily
}

// ByFamily is an address of each family; invalid if there is none.
type ByFamily struct{ V4, V6 netip.Addr }

// Of returns the address of one family.
func (b ByFamily) Of(f cidr.Family) netip.Addr {
	if f == cidr.V4 {
		return b.V4
	}
	return b.V6
}

// Set replaces the address of one family.
func (b *ByFamily) Set(f cidr.Family, a netip.Addr) {
	*[2]*netip.Addr{&b.V4, &b.V6}[f] = a
}

// SameAddresses reports whether both say the same of how peers reach the node.
// Nil says nothing.
func (a *Assigned) SameAddresses(o *Assigned) bool {
	if a == nil {
		a = &Assigned{}
	}
	if o == nil {
		o = &Assigned{}
	}
	return a.Detected == o.Detected && a.Published == o.Published
}
