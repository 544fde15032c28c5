package kernel

import (
	"encoding/binary"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

const (
	etherLen  = 14
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
)

// etherHeader is an Ethernet II header.
type etherHeader struct {
	dst, src dataplane.MAC
	kind     uint16
}

func parseEther(b []byte) (etherHeader, []byte, error) {
	if len(b) < etherLen {
		return etherHeader{}, nil, errShort
	}
	return etherHeader{
		dst: dataplane.MAC(b[0:6]), src: dataplane.MAC(b[6:12]),
		kind: binary.BigEndian.Uint16(b[12:]),
	}, b[etherLen:], nil
}

// etherFrame returns a packet in a frame.
func etherFrame(dst, src dataplane.MAC, packet []byte) []byte {
	kind := uint16(etherIPv4)
	if len(packet) > 0 && packet[0]>>4 == 6 {
		kind = etherIPv6
	}
	b := make([]byte, 0, etherLen+len(packet))
	b = append(b, dst[:]...)
	b = append(b, src[:]...)
	b = binary.BigEndian.AppendUint16(b, kind)
	return append(b, packet...)
}

// etherFamily returns the family of the packet in a frame.
func etherFamily(kind uint16) (cidr.Family, bool) {
	switch kind {
	case etherIPv4:
		return cidr.V4, true
	case etherIPv6:
		return cidr.V6, true
	}
	return 0, false
}

// linkLocal returns the EUI-64 address of RFC 4291 appendix A.
func linkLocal(mac dataplane.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{
		0: 0xfe, 1: 0x80,
		8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff,
		12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5],
	})
}
