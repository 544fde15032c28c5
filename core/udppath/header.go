package udppath

import "encoding/binary"

const (
	minHeader = 20    // of IPv4, without options
	minMTU    = 68    // RFC 791: every module forwards this much
	maxPacket = 65535 // the largest total length

	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17

	minTCP  = 20
	sizeUDP = 8

	dontFragment  = 0x4000
	moreFragments = 0x2000
	offsetMask    = 0x1fff
)

// parse checks the header of an IPv4 packet as RFC 1812 5.2.2 demands, and
// returns its length. The returned packet has the header's total length, since a
// link may have padded it.
func parse(b []byte) (packet []byte, header int, reason Reason) {
	switch {
	case len(b) == 0:
		return nil, 0, Truncated
	case b[0]>>4 != 4:
		return nil, 0, NotIPv4
	case len(b) < minHeader:
		return nil, 0, Truncated
	}
	header = int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case header < minHeader || total < header:
		return nil, 0, BadHeader
	case total > len(b):
		return nil, 0, Truncated
	case headerSum(b[:header]) != 0xffff:
		return nil, 0, BadChecksum
	}
	return b[:total], header, Passed
}

// fragmentation returns the third word of the header: flags and offset.
func fragmentation(ip []byte) uint16 { return binary.BigEndian.Uint16(ip[6:]) }

// fragmented reports whether a packet is a part of another.
func fragmented(ip []byte) bool { return fragmentation(ip)&(moreFragments|offsetMask) != 0 }
