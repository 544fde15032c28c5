package kernel

import (
	"encoding/binary"
	"net/netip"
)

// checksum returns the Internet checksum (RFC 1071) of some bytes. It continues
// a sum begun by pseudoSum, or zero.
func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// pseudoSum begins the sum of a transport packet with its pseudo header (RFC
// 768, RFC 8200 section 8.1).
func pseudoSum(src, dst netip.Addr, proto uint8, length int) uint32 {
	sum := uint32(proto) + uint32(length)
	for _, a := range []netip.Addr{src, dst} {
		b := a.AsSlice()
		for ; len(b) >= 2; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
	}
	return sum
}
