package proxy

import "encoding/binary"

// The reference: everything done the slow and obvious way, to compare with.

// slowSum adds up 16-bit words one by one, as RFC 1071 section 4.1 does.
func slowSum(b []byte) uint16 {
	var s uint32
	for i, c := range b {
		if i%2 == 0 {
			s += uint32(c) << 8
		} else {
			s += uint32(c)
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// slowChecksums gives an IPv4 packet without options all its checksums.
func slowChecksums(ip []byte) {
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^slowSum(ip[:20]))
	at := map[byte]int{protoTCP: 36, protoUDP: 26}[ip[9]]
	if at == 0 {
		return
	}
	binary.BigEndian.PutUint16(ip[at:], 0)
	binary.BigEndian.PutUint16(ip[at:], ^slowTransportSum(ip))
	if ip[9] == protoUDP && ip[26] == 0 && ip[27] == 0 {
		ip[26], ip[27] = 0xff, 0xff
	}
}

// slowTransportSum is the sum over pseudo header, TCP or UDP header and payload.
func slowTransportSum(ip []byte) uint16 {
	length := len(ip) - 20
	pseudo := append(append([]byte(nil), ip[12:20]...), 0, ip[9], byte(length>>8), byte(length))
	return slowSum(append(pseudo, ip[20:]...))
}

// slowError is the ICMP error that a host at from sends about a packet.
func slowError(from []byte, ttl byte, kind []byte, mtu int, about []byte) []byte {
	if kind[0] != 3 || kind[1] != 4 {
		mtu = 0
	}
	quote := about[:min(len(about), int(about[0]&15)*4+8)]
	icmp := append([]byte{kind[0], kind[1], 0, 0, 0, 0, byte(mtu >> 8), byte(mtu)}, quote...)
	binary.BigEndian.PutUint16(icmp[2:], ^slowSum(icmp))
	b := append([]byte{0x45, 0xc0, 0, byte(20 + len(icmp)), 0, 0, 0x40, 0, ttl, 1, 0, 0}, from...)
	b = append(append(b, about[12:16]...), icmp...)
	binary.BigEndian.PutUint16(b[10:], ^slowSum(b[:20]))
	return b
}
