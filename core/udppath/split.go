package udppath

import "encoding/binary"

// The flags of TCP.
const (
	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpPSH = 0x08
	tcpACK = 0x10
	tcpURG = 0x20
	tcpCWR = 0x80
)

// Segment is one packet in two consecutive pieces. The payload is in place; it is
// empty if the header is the whole packet.
type Segment struct {
	Header, Payload []byte
}

// MaxSegmentHeader is the largest size of the headers: IPv4 and TCP with all
// options.
const MaxSegmentHeader = 60 + 60

// Splitter finishes the work that the kernel leaves to a device. It cuts a packet
// into packets for the wire, each with its own length, ID, sequence number, flags
// and checksums, and completes the checksum of a packet that needs no cut. It
// reads the payload only for the sum.
type Splitter struct {
	cut
	packet []byte
	rest   []byte // payload not handed out yet
	done   bool

	id       uint16
	sequence uint32
	ipSum    uint64 // over the IPv4 header without length, ID and checksum
	upperSum uint64 // over pseudo header and header without the fields that differ
}

// Start takes the packet of a verdict to transmit, and its vnet header. A reason
// other than Passed means that the two do not fit; [Path.Send] lets no such packet
// pass.
func (s *Splitter) Start(packet []byte, v Vnet) Reason {
	header := int(packet[0]&15) * 4
	*s = Splitter{packet: packet}
	if v.GSOType == VnetGSONone {
		return s.startWhole(header, v)
	}
	c, reason := cutOf(packet, header, v)
	if reason != Passed {
		s.done = true
		return reason
	}
	s.cut = c
	s.rest = packet[c.header:]
	s.id = binary.BigEndian.Uint16(packet[4:])
	s.ipSum = uint64(binary.BigEndian.Uint16(packet)) + uint64(binary.BigEndian.Uint16(packet[6:])) +
		uint64(binary.BigEndian.Uint16(packet[8:])) + uint64(headerSum(packet[12:header]))
	s.upperSum = pseudoSum(packet, 0) + uint64(binary.BigEndian.Uint32(packet[header:])) // ports
	if c.proto == protoTCP {
		tcp := packet[header:c.header]
		s.sequence = binary.BigEndian.Uint32(tcp[4:])
		s.upperSum += uint64(binary.BigEndian.Uint32(tcp[8:])) + uint64(binary.BigEndian.Uint16(tcp[14:])) +
			uint64(binary.BigEndian.Uint16(tcp[18:])) + uint64(headerSum(tcp[minTCP:]))
	}
	return Passed
}

// startWhole completes the checksum of a packet that needs no cut. The field holds
// the sum of the pseudo header, so the sum from the start of the transport header,
// with the field, is the sum over everything.
func (s *Splitter) startWhole(header int, v Vnet) Reason {
	if v.Flags&VnetNeedsCsum == 0 {
		return Passed
	}
	if !checksumFits(s.packet, header, v) {
		s.done = true
		return BadOffload
	}
	check := ^Sum(s.packet[v.CsumStart:])
	if check == 0 && s.packet[9] == protoUDP {
		check = 0xffff // 0 means that there is none
	}
	binary.BigEndian.PutUint16(s.packet[v.CsumStart+v.CsumOffset:], check)
	return Passed
}

// Next returns the next packet. Its header lies in arena, which must have room
// for [MaxSegmentHeader], or in the packet itself.
func (s *Splitter) Next(arena []byte) (seg Segment, ok bool) {
	if s.done {
		return Segment{}, false
	}
	if s.size == 0 {
		s.done = true
		return Segment{Header: s.packet}, true
	}
	payload := s.rest[:min(s.size, len(s.rest))]
	s.rest = s.rest[len(payload):]
	s.done = len(s.rest) == 0

	h := arena[:s.header:s.header]
	copy(h, s.packet)
	total := len(h) + len(payload)
	binary.BigEndian.PutUint16(h[2:], uint16(total))
	binary.BigEndian.PutUint16(h[4:], s.id)
	binary.BigEndian.PutUint16(h[10:], ^fold(s.ipSum+uint64(total)+uint64(s.id)))
	upper := s.upperSum + uint64(total-s.ip) + uint64(Sum(payload))
	if s.proto == protoTCP {
		s.finishTCP(h[s.ip:], upper, len(payload))
	} else {
		finishUDP(h[s.ip:], upper, total-s.ip)
	}
	s.id++
	return Segment{Header: h, Payload: payload}, true
}

func (s *Splitter) finishTCP(tcp []byte, upper uint64, payload int) {
	if !s.done {
		tcp[13] &^= tcpFIN | tcpPSH
	}
	binary.BigEndian.PutUint32(tcp[4:], s.sequence)
	upper += uint64(s.sequence) + uint64(binary.BigEndian.Uint16(tcp[12:]))
	binary.BigEndian.PutUint16(tcp[16:], ^fold(upper))
	s.sequence += uint32(payload)
	s.packet[s.ip+13] &^= tcpCWR // for the next packets
}

func finishUDP(udp []byte, upper uint64, length int) {
	binary.BigEndian.PutUint16(udp[4:], uint16(length))
	check := ^fold(upper + uint64(length))
	if check == 0 {
		check = 0xffff // 0 means that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], check)
}
