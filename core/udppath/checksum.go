package udppath

import (
	"encoding/binary"
	"math/bits"
)

// Sum returns the ones' complement sum of RFC 1071 over bytes as big-endian
// 16-bit words; an odd last byte is padded with zero.
//
// Such a sum does not depend on the order of bytes within a word, if the result
// has the same order, nor on the width of the words. So it adds eight bytes at a
// time as they lie in memory, or what sumWide can take. Two chains of carries keep
// both of a processor's adders busy.
func Sum(b []byte) uint16 {
	var x, y, carry uint64
	if hasWideSum && len(b) >= wideSum {
		n := len(b) &^ (wideSum - 1)
		x = sumWide(b[:n])
		b = b[n:]
	}
	for len(b) >= 64 {
		x, carry = bits.Add64(x, binary.LittleEndian.Uint64(b), 0)
		x, carry = bits.Add64(x, binary.LittleEndian.Uint64(b[8:]), carry)
		x, carry = bits.Add64(x, binary.LittleEndian.Uint64(b[16:]), carry)
		x, carry = bits.Add64(x, binary.LittleEndian.Uint64(b[24:]), carry)
		x += carry
		y, carry = bits.Add64(y, binary.LittleEndian.Uint64(b[32:]), 0)
		y, carry = bits.Add64(y, binary.LittleEndian.Uint64(b[40:]), carry)
		y, carry = bits.Add64(y, binary.LittleEndian.Uint64(b[48:]), carry)
		y, carry = bits.Add64(y, binary.LittleEndian.Uint64(b[56:]), carry)
		y += carry
		b = b[64:]
	}
	for len(b) >= 8 {
		x, carry = bits.Add64(x, binary.LittleEndian.Uint64(b), 0)
		x += carry
		b = b[8:]
	}
	x, carry = bits.Add64(x, y, 0)
	x, carry = bits.Add64(x, tail(b), carry)
	return bits.ReverseBytes16(fold(x + carry))
}

// tail returns up to seven bytes as they would lie in memory before zeros.
func tail(b []byte) (rest uint64) {
	for i, c := range b {
		rest |= uint64(c) << (8 * i)
	}
	return rest
}

// fold reduces a sum of 16-bit words to one word by adding the carries back in.
func fold(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s)
}

// headerSum returns the sum over an IPv4 header: 0xffff if the checksum is right.
func headerSum(h []byte) uint16 {
	var s uint64
	for ; len(h) >= 4; h = h[4:] {
		s += uint64(binary.BigEndian.Uint32(h))
	}
	return fold(s)
}

// pseudoSum returns the sum over the pseudo header of TCP or UDP: addresses,
// protocol, and the length of the segment with its own header.
func pseudoSum(ip []byte, length int) uint64 {
	return uint64(binary.BigEndian.Uint32(ip[12:])) + uint64(binary.BigEndian.Uint32(ip[16:])) + uint64(ip[9]) +
		uint64(length)
}

// lowerTTL lowers the TTL by one, and changes the checksum by equation 3 of RFC
// 1624, HC' = ~(~HC + ~m + m'), where m' is less than m by 0x0100.
func lowerTTL(ip []byte) {
	ip[8]--
	was := binary.BigEndian.Uint16(ip[10:])
	binary.BigEndian.PutUint16(ip[10:], ^fold(uint64(^was)+0xfeff))
}
