package udppath

import "encoding/binary"

// problem is an ICMP error: type, code and, for "fragmentation needed", the
// MTU of the next hop (RFC 1191).
type problem struct {
	kind, code byte
	mtu        int
}

var (
	netUnreachable = problem{kind: 3, code: 0}
	timeExceeded   = problem{kind: 11, code: 0}
)

func fragmentationNeeded(mtu int) problem { return problem{kind: 3, code: 4, mtu: mtu} }

const (
	localTTL = 8  // of an error that goes to the TUN: upstream's (interop 6.1)
	peerTTL  = 64 // of one that has hops before it (RFC 1700)

	internetworkControl = 0xc0 // the precedence of ICMP errors (RFC 1812 4.3.2.5)

	quoted    = 8 // bytes quoted behind the header (RFC 792)
	maxHeader = 60
	maxError  = minHeader + 8 + maxHeader + quoted
)

// mayAnswer reports whether RFC 1812 4.3.2.7 allows an error about a packet: not
// about an error, a later fragment, or a packet to or from other than one host.
func mayAnswer(ip []byte, header int) bool {
	switch {
	case fragmentation(ip)&offsetMask != 0:
		return false
	case !unicast(ip[12:16]) || !unicast(ip[16:20]):
		return false
	case ip[9] == protoICMP:
		return len(ip) > header && query(ip[header])
	}
	return true
}

// unicast reports whether an address can belong to one host: it is not in 0/8 or
// 127/8, nor in the upper eighth, which is multicast, reserved, and broadcast.
func unicast(a []byte) bool { return a[0] != 0 && a[0] != 127 && a[0] < 224 }

// query reports whether an ICMP type is known not to be an error.
func query(kind byte) bool {
	switch kind {
	case 0, 8, 9, 10, 13, 14, 15, 16, 17, 18:
		return true
	}
	return false
}

// writeError writes an ICMP error about a packet into b, from an address to the
// packet's source, and returns it.
func writeError(b *[maxError]byte, from [4]byte, ttl byte, p problem, about []byte, header int) []byte {
	quote := about[:min(len(about), header+quoted)]
	out := b[:minHeader+8+len(quote)]
	clear(out[:minHeader+8])
	out[0] = 4<<4 | minHeader/4
	out[1] = internetworkControl
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)))
	binary.BigEndian.PutUint16(out[6:], dontFragment)
	out[8] = ttl
	out[9] = protoICMP
	copy(out[12:16], from[:])
	copy(out[16:20], about[12:16])
	binary.BigEndian.PutUint16(out[10:], ^headerSum(out[:minHeader]))

	icmp := out[minHeader:]
	icmp[0], icmp[1] = p.kind, p.code
	binary.BigEndian.PutUint16(icmp[6:], uint16(p.mtu))
	copy(icmp[8:], quote)
	binary.BigEndian.PutUint16(icmp[2:], ^Sum(icmp))
	return out
}
