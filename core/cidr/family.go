package cidr

import "net/netip"

// Family is an address family. It indexes arrays of two.
type Family uint8

// The two families, in the order in which flannel handles them.
const (
	V4 Family = iota
	V6
)

// Families lists both, for loops over them.
var Families = [2]Family{V4, V6}

// String returns "IPv4" or "IPv6".
func (f Family) String() string { return [2]string{"IPv4", "IPv6"}[f] }

// Bits returns the length of an address: 32 or 128.
func (f Family) Bits() int { return [2]int{32, 128}[f] }

// Pick returns the one of two values that belongs to a family. With pointers, a
// caller changes the variable of a family.
func Pick[T any](f Family, v4, v6 T) T {
	if f == V4 {
		return v4
	}
	return v6
}

// FamilyOf returns the family of a valid address; an IPv4-mapped IPv6 address is V6.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return V4
	}
	return V6
}

// ParseAddr reads an address of one family. It refuses a zone, which means nothing
// on another host, and an IPv4-mapped address, which belongs to neither family.
func ParseAddr(f Family, s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	return a, err == nil && FamilyOf(a) == f && a.Zone() == "" && !a.Is4In6()
}
