package config

import (
	"encoding/json"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Network is the parsed and completed network config.
type Network struct {
	V4, V6         Range          // the zero Range: the family is off
	Off            []netip.Prefix // the networks of families that are off, masked
	EnableNFTables bool
	Backend        Backend
	Formerly       []Backend // the previous backends that nodes keep; nil: the config has no such member
	Warnings       []string  // a sentence for each member of the document that has no effect
}

// Range is the address space of one family and its division into subnets. Only
// Network is set if another program assigns the subnets.
type Range struct {
	Network   netip.Prefix // masked
	SubnetLen int          // prefix length of one node's subnet
	Min, Max  netip.Addr   // first and last subnet base, both inclusive
}

// Enabled reports whether the family is on.
func (r Range) Enabled() bool { return r.Network.IsValid() }

// Holds reports whether an address can belong to a node's subnet. Without Min and Max the whole network may: another
// program assigns the subnets.
func (r Range) Holds(a netip.Addr) bool {
	if !r.Network.Contains(a) || r.SubnetLen == 0 {
		return r.Network.Contains(a)
	}
	last := cidr.Last(netip.PrefixFrom(r.Max, r.SubnetLen))
	return !a.Less(r.Min) && !last.Less(a)
}

// Of returns the range of one family.
func (n Network) Of(f cidr.Family) Range {
	return cidr.Pick(f, n.V4, n.V6)
}

// Only returns the config with only one family switched on.
func (n Network) Only(f cidr.Family) Network {
	*cidr.Pick(f, &n.V6, &n.V4) = Range{}
	return n
}

// Backend names the backend that carries the packets, and its options.
type Backend struct {
	Type    string          // in lower case; "" if the config has no Backend member
	Options json.RawMessage // the whole Backend object
}
