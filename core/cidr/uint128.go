package cidr

import (
	"math/big"
	"math/bits"
)

// Uint128 is an unsigned number of 128 bits: the number of an address, or a
// distance between two. It wraps around, as uint64 does.
type Uint128 struct {
	Hi, Lo uint64
}

// From64 returns n as a Uint128.
func From64(n uint64) Uint128 { return Uint128{Lo: n} }

// Add returns n + o.
func (n Uint128) Add(o Uint128) Uint128 {
	lo, carry := bits.Add64(n.Lo, o.Lo, 0)
	hi, _ := bits.Add64(n.Hi, o.Hi, carry)
	return Uint128{hi, lo}
}

// Sub returns n - o.
func (n Uint128) Sub(o Uint128) Uint128 {
	lo, borrow := bits.Sub64(n.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(n.Hi, o.Hi, borrow)
	return Uint128{hi, lo}
}

// Shl returns n shifted to the left: times 2 to the power of by.
func (n Uint128) Shl(by int) Uint128 {
	if by >= 64 {
		return Uint128{Hi: n.Lo << (by - 64)}
	}
	return Uint128{n.Hi<<by | n.Lo>>(64-by), n.Lo << by}
}

// Shr returns n shifted to the right: divided by 2 to the power of by.
func (n Uint128) Shr(by int) Uint128 {
	if by >= 64 {
		return Uint128{Lo: n.Hi >> (by - 64)}
	}
	return Uint128{n.Hi >> by, n.Lo>>by | n.Hi<<(64-by)}
}

// Cmp returns -1, 0 or 1 as n is less than, equal to or greater than o.
func (n Uint128) Cmp(o Uint128) int {
	switch {
	case n == o:
		return 0
	case n.Hi < o.Hi || n.Hi == o.Hi && n.Lo < o.Lo:
		return -1
	}
	return 1
}

// Len returns the number of bits needed to write n; 0 for 0.
func (n Uint128) Len() int {
	if n.Hi != 0 {
		return 64 + bits.Len64(n.Hi)
	}
	return bits.Len64(n.Lo)
}

// String returns n in decimal.
func (n Uint128) String() string {
	b := new(big.Int).SetUint64(n.Hi)
	return b.Or(b.Lsh(b, 64), new(big.Int).SetUint64(n.Lo)).String()
}
