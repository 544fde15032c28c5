package udppath

import (
	"bytes"
	"encoding/binary"
)

// shape holds the properties of a packet that determine whether it can be joined. The
// compiler keeps four fields in registers.
type shape struct {
	proto  byte // 0: the packet stays alone
	ended  bool // no packet may follow
	header int  // length of all headers
	bytes  int  // of payload
}

// shapeOf returns the shape of a packet.
func shapeOf(ip []byte, udp bool) shape {
	alone := shape{ended: true}
	if ip[0] != 4<<4|minHeader/4 || fragmented(ip) {
		return alone
	}
	switch upper := ip[minHeader:]; {
	case ip[9] == protoTCP && len(upper) >= minTCP:
		offset := int(upper[12]>>4) * 4
		if offset < minTCP || offset > len(upper) {
			return alone
		}
		usual := upper[13]&(tcpFIN|tcpSYN|tcpRST|tcpPSH|tcpACK|tcpURG|tcpCWR) == tcpACK
		return shape{protoTCP, !usual, minHeader + offset, len(upper) - offset}
	case ip[9] == protoUDP && udp && len(upper) >= sizeUDP:
		checked := upper[6]|upper[7] != 0
		usual := checked && int(binary.BigEndian.Uint16(upper[4:])) == len(upper)
		return shape{protoUDP, !usual, minHeader + sizeUDP, len(upper) - sizeUDP}
	}
	return alone
}

// run is a sequence of packets of one flow that can be one packet. Its shape is
// that of the joined packet.
type run struct {
	shape
	size     int   // bytes of payload in each packet but the last
	count    int   // of packets
	verified bool  // the first packet's checksum is right; the others' always are
	first    int32 // packets of the joiner
	last     int32
}

// follows reports whether a packet can be the next of the run: the fields that
// the kernel copies when it cuts must be equal, and those that it counts up must
// be one further.
func (r *run) follows(first []byte, next shape, packet []byte) bool {
	if r.ended || next.bytes == 0 || next.bytes > r.size || next.header != r.header || next.proto != r.proto ||
		r.header+r.bytes+next.bytes > maxPacket {
		return false
	}
	sameIP := first[1] == packet[1] && // TOS
		bytes.Equal(first[6:10], packet[6:10]) // DF, TTL
	// A packet that is never fragmented needs no ID of its own (RFC 6864).
	id := binary.BigEndian.Uint16(first[4:]) + uint16(r.count)
	if !sameIP || fragmentation(first)&dontFragment == 0 && binary.BigEndian.Uint16(packet[4:]) != id {
		return false
	}
	if r.proto == protoUDP {
		return r.count < maxJoinedUDP && !next.ended
	}
	return r.count < maxJoined && r.followsTCP(first[minHeader:r.header], packet[minHeader:r.header])
}

// followsTCP compares the headers of the first packet and the next. Only the flags
// that a cut puts on the last packet alone may differ. The window may not differ,
// or an update of the window would be lost.
func (r *run) followsTCP(first, tcp []byte) bool {
	return binary.BigEndian.Uint32(tcp[4:]) == binary.BigEndian.Uint32(first[4:])+uint32(r.bytes) &&
		bytes.Equal(tcp[8:13], first[8:13]) && // acknowledgement, data offset
		(tcp[13]^first[13])&^(tcpFIN|tcpPSH) == 0 &&
		bytes.Equal(tcp[14:16], first[14:16]) && // window
		bytes.Equal(tcp[18:], first[18:]) // urgent pointer, options
}

// take makes the packet with an index the last of the run.
func (r *run) take(next shape, index int32) {
	r.last = index
	r.count++
	r.bytes += next.bytes
	r.ended = next.ended || next.bytes < r.size
}

// finish makes the first packet's headers those of the whole run, with the sum of
// the pseudo header in place of the checksum, and returns the vnet header.
func (r *run) finish(first, last []byte) Vnet {
	total := r.header + r.bytes
	binary.BigEndian.PutUint16(first[2:], uint16(total))
	binary.BigEndian.PutUint16(first[10:], 0)
	binary.BigEndian.PutUint16(first[10:], ^headerSum(first[:minHeader]))
	v := Vnet{
		Flags:     VnetNeedsCsum,
		HeaderLen: uint16(r.header),
		GSOSize:   uint16(r.size),
		CsumStart: minHeader,
	}
	upper := first[minHeader:]
	if r.proto == protoTCP {
		v.GSOType, v.CsumOffset = VnetGSOTCPv4, 16
		upper[13] |= last[minHeader+13] & (tcpFIN | tcpPSH)
	} else {
		v.GSOType, v.CsumOffset = VnetGSOUDP, 6
		binary.BigEndian.PutUint16(upper[4:], uint16(total-minHeader))
	}
	binary.BigEndian.PutUint16(upper[v.CsumOffset:], fold(pseudoSum(first, total-minHeader)))
	return v
}

// verify reports whether the checksum of a TCP or UDP packet without IPv4
// options is right.
func verify(ip []byte) bool {
	return fold(pseudoSum(ip, len(ip)-minHeader)+uint64(Sum(ip[minHeader:]))) == 0xffff
}
