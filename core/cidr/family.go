package cidr

import "net/netip"

// Family is an address family. It indexes arrays of two.
type Family uint8

// The two families, in the order in which flannel handles them.
const (
	V4 Family = iota
	V6
)

// Families lists both, for loops that treat them alike.
var Families = [2]Family{V4, V6}

// String returns "IPv4" or "IPv6".
func (f Family) String() string { return [2]string{"IPv4", "IPv6"}[f] }

// Bits returns the length of an address: 32 or 128.
func (f Family) Bits() int { return [2]int{32, 128}[f] }

// FamilyOf returns the family of a valid address; an IPv4-mapped IPv6 address is V6.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return V4
	}
	return V6
}
