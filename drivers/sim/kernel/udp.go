package kernel

import (
	"encoding/binary"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/sim/world"
)

const (
	udpLen   = 8
	vxlanLen = 8
)

// udpDatagram is a UDP datagram.
type udpDatagram struct {
	src, dst uint16
	body     []byte
}

// payload returns the datagram as bytes, for a packet with that header. It has
// its checksum in both families, as Linux's vxlan links send it.
func (d *udpDatagram) payload(h *ipHeader) []byte {
	b := make([]byte, udpLen, udpLen+len(d.body))
	binary.BigEndian.PutUint16(b, d.src)
	binary.BigEndian.PutUint16(b[2:], d.dst)
	binary.BigEndian.PutUint16(b[4:], uint16(udpLen+len(d.body)))
	b = append(b, d.body...)
	sum := checksum(pseudoSum(h.src, h.dst, protoUDP, len(b)), b)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return b
}

func parseUDP(h *ipHeader, b []byte) (udpDatagram, error) {
	if len(b) < udpLen {
		return udpDatagram{}, errShort
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < udpLen || length > len(b) {
		return udpDatagram{}, errShort
	}
	b = b[:length]
	given := binary.BigEndian.Uint16(b[6:])
	if given == 0 && h.family() == cidr.V6 || given != 0 && checksum(pseudoSum(h.src, h.dst, protoUDP, length), b) != 0 {
		return udpDatagram{}, errChecksum
	}
	return udpDatagram{src: binary.BigEndian.Uint16(b), dst: binary.BigEndian.Uint16(b[2:]), body: b[udpLen:]}, nil
}

// vxlanFrame returns a frame behind a VXLAN header (RFC 7348).
func vxlanFrame(vni uint32, frame []byte) []byte {
	b := make([]byte, vxlanLen, vxlanLen+len(frame))
	b[0] = 0x08 // the VNI is valid
	binary.BigEndian.PutUint32(b[4:], vni<<8)
	return append(b, frame...)
}

func parseVXLAN(b []byte) (vni uint32, frame []byte, err error) {
	if len(b) < vxlanLen {
		return 0, nil, errShort
	}
	if b[0]&0x08 == 0 {
		return 0, nil, errVersion
	}
	return binary.BigEndian.Uint32(b[4:]) >> 8, b[vxlanLen:], nil
}

// flowPort returns the source port of a tunnelled flow: a hash of its addresses
// and ports within Linux's local port range.
func flowPort(packet []byte) uint16 {
	const first, count = 32768, 28232
	h, payload, err := parseIP(packet)
	if err != nil {
		return first
	}
	sum := world.HashUint64(world.HashStart, uint64(h.proto))
	for _, c := range h.src.AsSlice() {
		sum = (sum ^ uint64(c)) * world.HashPrime
	}
	for _, c := range h.dst.AsSlice() {
		sum = (sum ^ uint64(c)) * world.HashPrime
	}
	if h.proto == protoUDP && len(payload) >= 4 && !h.fragment() {
		sum = world.HashUint64(sum, uint64(binary.BigEndian.Uint32(payload)))
	}
	return uint16(first + sum%count)
}
