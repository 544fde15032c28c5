package kernel

import (
	"encoding/binary"
	"net/netip"
)

// tcpLen is the size of a TCP header without options.
const tcpLen = 20

// The flags of a TCP segment (RFC 9293).
const (
	tcpSYN = 1 << 1
	tcpRST = 1 << 2
	tcpACK = 1 << 4
)

// tcpSegment is a TCP segment without data. Hosts have no TCP listeners: they refuse
// every connection.
type tcpSegment struct {
	src, dst uint16
	seq, ack uint32
	flags    uint8
}

// payload returns the segment as bytes, for a packet with that header.
func (t *tcpSegment) payload(h *ipHeader) []byte {
	b := make([]byte, tcpLen)
	binary.BigEndian.PutUint16(b, t.src)
	binary.BigEndian.PutUint16(b[2:], t.dst)
	binary.BigEndian.PutUint32(b[4:], t.seq)
	binary.BigEndian.PutUint32(b[8:], t.ack)
	b[12] = tcpLen / 4 << 4
	b[13] = t.flags
	binary.BigEndian.PutUint16(b[16:], checksum(pseudoSum(h.src, h.dst, protoTCP, len(b)), b))
	return b
}

func parseTCP(h *ipHeader, b []byte) (tcpSegment, error) {
	if len(b) < tcpLen {
		return tcpSegment{}, errShort
	}
	if checksum(pseudoSum(h.src, h.dst, protoTCP, len(b)), b) != 0 {
		return tcpSegment{}, errChecksum
	}
	return tcpSegment{
		src: binary.BigEndian.Uint16(b), dst: binary.BigEndian.Uint16(b[2:]),
		seq: binary.BigEndian.Uint32(b[4:]), ack: binary.BigEndian.Uint32(b[8:]),
		flags: b[13],
	}, nil
}

// connect begins a connection, which the destination refuses.
func (s *stack) connect(dst netip.Addr, port uint16, o PingOptions) *Probe {
	p, src := s.newProbe(dst, o)
	if !src.IsValid() {
		s.drop(p, DropNoRoute, dst.String())
		return p
	}
	h := ipHeader{src: src, dst: dst, proto: protoTCP, df: true}
	syn := tcpSegment{src: p.id, dst: port, flags: tcpSYN}
	s.world.Note(s.name+": connect", dst.String())
	s.send(h, syn.payload(&h), p)
	return p
}

func (s *stack) deliverTCP(h ipHeader, payload []byte, p *Probe) {
	t, err := parseTCP(&h, payload)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	if t.flags&tcpRST != 0 {
		p.answered(s, t.dst)
		return
	}
	p.arrived(s, h.src)
	answer := ipHeader{src: h.dst, dst: h.src, proto: protoTCP, df: true}
	rst := tcpSegment{src: t.dst, dst: t.src, ack: t.seq + 1, flags: tcpRST | tcpACK}
	s.send(answer, rst.payload(&answer), p)
}
