package wireguard

import (
	"encoding/binary"
	"errors"

	"github.com/flanneld/flannel/core/udppath"
)

const (
	protoTCP, protoUDP = 6, 17

	minIPv4, sizeIPv6 = 20, 40
	minTCP, sizeUDP   = 20, 8

	// maxHeaders is the most that a packet which the kernel left whole has before
	// its payload: IPv6 with some options, TCP with all of them.
	maxHeaders = 128

	tcpFIN = 0x01
	tcpPSH = 0x08
	tcpCWR = 0x80

	gsoTCPv6 = 4 // VIRTIO_NET_HDR_GSO_TCPV6
)

var errOffload = errors.New("the kernel's description of a packet does not fit the packet")

// cutter finishes the packets into which one that the kernel left whole is cut.
// It writes their headers; the payload is in place.
type cutter struct {
	headers [maxHeaders]byte // of the whole packet
	v6      bool
	proto   byte
	ip      int // bytes of IP headers
	size    int // bytes of all headers
	piece   int // bytes of payload in each packet but the last

	id       uint16
	sequence uint32
	upper    uint64 // sum over the fields that all packets share, with the pseudo header's
}

// start reads the headers of a packet, of which b holds at least the headers.
func (c *cutter) start(b []byte, v udppath.Vnet) error {
	c.v6 = b[0]>>4 == 6
	c.ip = int(v.CsumStart)
	c.piece = int(v.GSOSize)
	low := minIPv4
	if c.v6 {
		low = sizeIPv6
	}
	if c.ip < low || c.piece == 0 || len(b) < c.ip+minTCP && len(b) < c.ip+sizeUDP {
		return errOffload
	}
	switch v.GSOType &^ udppath.VnetGSOECN {
	case udppath.VnetGSOTCPv4, gsoTCPv6:
		if len(b) < c.ip+minTCP {
			return errOffload
		}
		c.proto, c.size = protoTCP, c.ip+int(b[c.ip+12]>>4)*4
		if c.size < c.ip+minTCP {
			return errOffload
		}
	case udppath.VnetGSOUDP:
		c.proto, c.size = protoUDP, c.ip+sizeUDP
	default:
		return errOffload
	}
	if c.size > len(b) || c.size > maxHeaders {
		return errOffload
	}
	h := c.headers[:c.size]
	copy(h, b)
	c.prepare(h)
	return nil
}

// prepare sums what all packets share.
func (c *cutter) prepare(h []byte) {
	upper := h[c.ip:]
	c.upper = uint64(c.proto)
	if c.v6 {
		c.upper += uint64(udppath.Sum(h[8:sizeIPv6]))
	} else {
		c.id = binary.BigEndian.Uint16(h[4:])
		c.upper += uint64(udppath.Sum(h[12:minIPv4]))
	}
	if c.proto == protoTCP {
		c.sequence = binary.BigEndian.Uint32(upper[4:])
		binary.BigEndian.PutUint32(upper[4:], 0)
		binary.BigEndian.PutUint16(upper[16:], 0)
	} else {
		binary.BigEndian.PutUint32(upper[4:], 0) // length and checksum
	}
	flags := uint16(0)
	if c.proto == protoTCP {
		flags = binary.BigEndian.Uint16(upper[12:])
	}
	c.upper += uint64(udppath.Sum(upper)) - uint64(flags)
}

// finish writes the headers of the next packet before its payload.
func (c *cutter) finish(packet []byte, last bool) {
	h := packet[:c.size]
	copy(h, c.headers[:])
	payload := packet[c.size:]
	if c.v6 {
		binary.BigEndian.PutUint16(h[4:], uint16(len(packet)-sizeIPv6))
	} else {
		binary.BigEndian.PutUint16(h[2:], uint16(len(packet)))
		binary.BigEndian.PutUint16(h[4:], c.id)
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], ^udppath.Sum(h[:c.ip]))
		c.id++
	}
	upper := h[c.ip:]
	length := len(packet) - c.ip
	total := c.upper + uint64(length) + uint64(udppath.Sum(payload))
	if c.proto == protoUDP {
		binary.BigEndian.PutUint16(upper[4:], uint16(length))
		binary.BigEndian.PutUint16(upper[6:], nonzero(^fold(total+uint64(length))))
		return
	}
	if !last {
		upper[13] &^= tcpFIN | tcpPSH
	}
	binary.BigEndian.PutUint32(upper[4:], c.sequence)
	total += uint64(c.sequence>>16) + uint64(c.sequence&0xffff) + uint64(binary.BigEndian.Uint16(upper[12:]))
	binary.BigEndian.PutUint16(upper[16:], ^fold(total))
	c.sequence += uint32(len(payload))
	c.headers[c.ip+13] &^= tcpCWR // for the next packets
}

// fold reduces a sum of 16-bit words to one word by adding the carries back in.
func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// nonzero returns a UDP checksum, in which 0 means that there is none.
func nonzero(check uint16) uint16 {
	if check == 0 {
		return 0xffff
	}
	return check
}

// complete puts the checksum into a packet that needs no cut. The field holds the
// sum of the pseudo header.
func complete(packet []byte, v udppath.Vnet) error {
	if v.Flags&udppath.VnetNeedsCsum == 0 {
		return nil
	}
	at := int(v.CsumStart) + int(v.CsumOffset)
	if v.CsumStart < minIPv4 || at+2 > len(packet) {
		return errOffload
	}
	binary.BigEndian.PutUint16(packet[at:], nonzero(^udppath.Sum(packet[v.CsumStart:])))
	return nil
}
