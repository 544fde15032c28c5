package cidr

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Number returns an address as a number; numbers have the order of addresses.
func Number(a netip.Addr) Uint128 {
	if a.Is4() {
		b := a.As4()
		return Uint128{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return Uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Addr returns the address with a number. It drops bits beyond the family's.
func (f Family) Addr(n Uint128) netip.Addr {
	if f == V4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(n.Lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.Hi)
	binary.BigEndian.PutUint64(b[8:], n.Lo)
	return netip.AddrFrom16(b)
}

// Last returns the highest address of a prefix.
func Last(p netip.Prefix) netip.Addr {
	f := FamilyOf(p.Addr())
	host := f.Bits() - p.Bits()
	size := From64(1).Shl(host) // 0 for ::/0, so that the sum below still holds
	return f.Addr(Number(p.Masked().Addr()).Add(size).Sub(From64(1)))
}

// Contains reports whether every address of inner lies in outer. Prefixes of
// different families never contain each other.
func Contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// Within reports whether one of several prefixes contains another one.
func Within(outer []netip.Prefix, inner netip.Prefix) bool {
	return slices.ContainsFunc(outer, func(p netip.Prefix) bool { return Contains(p, inner) })
}

// Cover returns the fewest prefixes that contain the addresses, which are of one family, and no others, sorted.
func Cover(addrs []netip.Addr) []netip.Prefix {
	sorted := slices.Clone(addrs)
	slices.SortFunc(sorted, netip.Addr.Compare)
	var cover []netip.Prefix
	for _, a := range slices.Compact(sorted) {
		next := netip.PrefixFrom(a, a.BitLen())
		for len(cover) > 0 && next.Bits() > 0 {
			before := cover[len(cover)-1]
			both := netip.PrefixFrom(before.Addr(), next.Bits()-1)
			if before.Bits() != next.Bits() || before == next || both.Masked() != both || !both.Contains(next.Addr()) {
				break
			}
			cover, next = cover[:len(cover)-1], both
		}
		cover = append(cover, next)
	}
	return cover
}

// Subnet returns the n-th prefix of a length, counted from the one at base.
func Subnet(base netip.Addr, n Uint128, length int) netip.Prefix {
	f := FamilyOf(base)
	return netip.PrefixFrom(f.Addr(Number(base).Add(n.Shl(f.Bits()-length))), length)
}

// Count returns the number of prefixes of a length from the one at first to the
// one at last, both included. First must not be above last, and they must not
// span all /128 prefixes of IPv6, whose count needs one bit more.
func Count(first, last netip.Addr, length int) Uint128 {
	host := FamilyOf(first).Bits() - length
	return Number(last).Sub(Number(first)).Shr(host).Add(From64(1))
}
