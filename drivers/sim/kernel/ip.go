package kernel

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// IP protocol numbers.
const (
	protoICMP4    = 1
	protoIPIP     = 4
	protoTCP      = 6
	protoUDP      = 17
	protoFragment = 44
	protoESP      = 50
	protoICMP6    = 58
)

const defaultTTL = 64

// Reasons why bytes are not a packet.
var (
	errShort    = errors.New("packet ends early")
	errVersion  = errors.New("not an IP packet")
	errChecksum = errors.New("wrong checksum")
)

// ipHeader is an IPv4 or IPv6 header without options. It includes the IPv6
// fragment header.
type ipHeader struct {
	src, dst netip.Addr
	proto    uint8
	ttl      uint8
	df       bool // IPv6: always

	id     uint32 // of the fragmented packet
	offset int    // of the fragment, in bytes
	more   bool   // fragments follow
	joined bool   // it came in fragments, and may leave in fragments

	size int // of the header as parsed, in bytes

	in string       // the link by which the packet came in; empty: this host sends it
	sa *association // through which the packet came in; nil: in the clear
}

func (h *ipHeader) family() cidr.Family { return cidr.FamilyOf(h.src) }

// fragment reports whether the packet is a fragment.
func (h *ipHeader) fragment() bool { return h.more || h.offset > 0 }

// parseIP reads a header and returns it with the rest of the packet.
func parseIP(b []byte) (ipHeader, []byte, error) {
	if len(b) == 0 {
		return ipHeader{}, nil, errShort
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b)
	case 6:
		return parseIPv6(b)
	}
	return ipHeader{}, nil, errVersion
}

func parseIPv4(b []byte) (ipHeader, []byte, error) {
	if len(b) < 20 {
		return ipHeader{}, nil, errShort
	}
	size, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if size < 20 || total < size || total > len(b) {
		return ipHeader{}, nil, errShort
	}
	if checksum(0, b[:size]) != 0 {
		return ipHeader{}, nil, errChecksum
	}
	frag := binary.BigEndian.Uint16(b[6:])
	return ipHeader{
		src: netip.AddrFrom4([4]byte(b[12:])), dst: netip.AddrFrom4([4]byte(b[16:])),
		proto: b[9], ttl: b[8],
		df: frag&0x4000 != 0, more: frag&0x2000 != 0, offset: int(frag&0x1fff) * 8,
		id:   uint32(binary.BigEndian.Uint16(b[4:])),
		size: size,
	}, b[size:total], nil
}

func parseIPv6(b []byte) (ipHeader, []byte, error) {
	if len(b) < 40 {
		return ipHeader{}, nil, errShort
	}
	total := 40 + int(binary.BigEndian.Uint16(b[4:]))
	if total > len(b) {
		return ipHeader{}, nil, errShort
	}
	h := ipHeader{
		src: netip.AddrFrom16([16]byte(b[8:])), dst: netip.AddrFrom16([16]byte(b[24:])),
		proto: b[6], ttl: b[7], df: true, size: 40,
	}
	if h.proto == protoFragment {
		if total < 48 {
			return ipHeader{}, nil, errShort
		}
		frag := binary.BigEndian.Uint16(b[42:])
		h.proto, h.size = b[40], 48
		h.offset, h.more = int(frag&^7), frag&1 != 0
		if h.fragment() {
			h.id = binary.BigEndian.Uint32(b[44:])
		}
	}
	return h, b[h.size:total], nil
}

// packet returns the header followed by a payload.
func (h *ipHeader) packet(payload []byte) []byte {
	if h.family() == cidr.V4 {
		return h.packet4(payload)
	}
	b := make([]byte, 40, 48+len(payload))
	b[0] = 0x60
	b[6] = h.proto
	b[7] = h.ttl
	if h.fragment() {
		frag := uint16(h.offset)
		if h.more {
			frag |= 1
		}
		b[6] = protoFragment
		b = append(b, h.proto, 0)
		b = binary.BigEndian.AppendUint16(b, frag)
		b = binary.BigEndian.AppendUint32(b, h.id)
	}
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40+len(payload)))
	copy(b[8:], h.src.AsSlice())
	copy(b[24:], h.dst.AsSlice())
	return append(b, payload...)
}

func (h *ipHeader) packet4(payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	frag := uint16(h.offset / 8)
	if h.df {
		frag |= 0x4000
	}
	if h.more {
		frag |= 0x2000
	}
	b[0] = 0x45
	b[8] = h.ttl
	b[9] = h.proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[4:], uint16(h.id))
	binary.BigEndian.PutUint16(b[6:], frag)
	copy(b[12:], h.src.AsSlice())
	copy(b[16:], h.dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(0, b))
	return append(b, payload...)
}

// hopped returns the packet with its TTL lowered by one, for the next hop.
func (h *ipHeader) hopped(packet []byte) []byte {
	b := append([]byte(nil), packet...)
	if h.family() == cidr.V6 {
		b[7]--
		return b
	}
	b[8]--
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksum(0, b[:h.size]))
	return b
}
