package udppath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// The functions below are the reference: the slow and obvious way.

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

// slowChecksums gives an IPv4 packet all its checksums.
func slowChecksums(ip []byte) {
	header := int(ip[0]&15) * 4
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^slowSum(ip[:header]))
	at := map[byte]int{protoTCP: 16, protoUDP: 6}[ip[9]]
	if at == 0 {
		return
	}
	field := ip[header+at:]
	binary.BigEndian.PutUint16(field, 0)
	binary.BigEndian.PutUint16(field, ^slowTransportSum(ip))
	if ip[9] == protoUDP && field[0] == 0 && field[1] == 0 {
		field[0], field[1] = 0xff, 0xff
	}
}

// slowTransportSum is the sum over pseudo header, TCP or UDP header and payload.
func slowTransportSum(ip []byte) uint16 {
	return slowSum(append(slowPseudo(ip), ip[int(ip[0]&15)*4:]...))
}

// slowPseudo is the pseudo header of TCP or UDP.
func slowPseudo(ip []byte) []byte {
	length := len(ip) - int(ip[0]&15)*4
	return append(append([]byte(nil), ip[12:20]...), 0, ip[9], byte(length>>8), byte(length))
}

// slowSplit cuts a packet as a device does: it copies the headers before each
// part of the payload, writes their fields and computes all checksums again.
func slowSplit(ip []byte, size int) [][]byte {
	transport := int(ip[0]&15) * 4
	header := transport + sizeUDP
	if ip[9] == protoTCP {
		header = transport + int(ip[transport+12]>>4)*4
	}
	var out [][]byte
	for at := header; at < len(ip); at += size {
		end := min(at+size, len(ip))
		b := append(append([]byte(nil), ip[:header]...), ip[at:end]...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(ip[4:])+uint16(len(out)))
		upper := b[transport:]
		if ip[9] == protoTCP {
			binary.BigEndian.PutUint32(upper[4:], binary.BigEndian.Uint32(upper[4:])+uint32(at-header))
			if end < len(ip) {
				upper[13] &= 0xff - 0x01 - 0x08 // FIN, PSH
			}
			if at > header {
				upper[13] &= 0xff - 0x80 // CWR
			}
		} else {
			binary.BigEndian.PutUint16(upper[4:], uint16(len(upper)))
		}
		slowChecksums(b)
		out = append(out, b)
	}
	return out
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

// diff calls cmp.Diff only if there is a difference: it is very slow with many long
// packets.
func diff(want, got [][]byte) string {
	if slices.EqualFunc(want, got, bytes.Equal) {
		return ""
	}
	return cmp.Diff(want, got)
}

// slowRoute looks at all peers for the longest prefix that holds an address.
func slowRoute(peers []Peer, a netip.Addr) (to netip.Addr, ok bool) {
	longest := -1
	for _, p := range peers {
		if p.Subnet.Contains(a) && p.Subnet.Bits() > longest {
			longest, to = p.Subnet.Bits(), p.PublicIP
			ok = true
		}
	}
	return to, ok
}
