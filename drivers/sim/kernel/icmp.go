package kernel

import (
	"encoding/binary"

	"github.com/flanneld/flannel/core/cidr"
)

// icmpKind is the meaning of an ICMP message, independent of the family's
// numbers.
type icmpKind uint8

const (
	icmpOther icmpKind = iota
	icmpEcho
	icmpEchoReply
	icmpNoRoute
	icmpNoHost
	icmpNoPort
	icmpTooBig
	icmpTimeExceeded
)

// icmpNumbers holds type and code of each kind: RFC 792 and 1191, RFC 4443.
var icmpNumbers = [...][2][2]uint8{
	icmpOther:        {{255, 0}, {255, 0}},
	icmpEcho:         {{8, 0}, {128, 0}},
	icmpEchoReply:    {{0, 0}, {129, 0}},
	icmpNoRoute:      {{3, 0}, {1, 0}},
	icmpNoHost:       {{3, 1}, {1, 3}},
	icmpNoPort:       {{3, 3}, {1, 4}},
	icmpTooBig:       {{3, 4}, {2, 0}},
	icmpTimeExceeded: {{11, 0}, {3, 0}},
}

// String names the message as ping prints it.
func (k icmpKind) String() string {
	return [...]string{
		"other", "echo request", "echo reply", "network unreachable", "host unreachable",
		"port unreachable", "packet too big", "time to live exceeded",
	}[k]
}

// isError reports whether the message is about another packet.
func (k icmpKind) isError() bool { return k >= icmpNoRoute }

// icmpMessage is an ICMP message. The body of an error quotes the packet.
type icmpMessage struct {
	kind    icmpKind
	id, seq uint16 // of an echo
	mtu     int    // of icmpTooBig
	body    []byte
}

// payload returns the message as bytes, for a packet with that header.
func (m *icmpMessage) payload(h *ipHeader) []byte {
	f := h.family()
	numbers := icmpNumbers[m.kind][f]
	b := make([]byte, 8, 8+len(m.body))
	b[0], b[1] = numbers[0], numbers[1]
	switch {
	case m.kind == icmpTooBig && f == cidr.V4:
		binary.BigEndian.PutUint16(b[6:], uint16(m.mtu))
	case m.kind == icmpTooBig:
		binary.BigEndian.PutUint32(b[4:], uint32(m.mtu))
	case !m.kind.isError():
		binary.BigEndian.PutUint16(b[4:], m.id)
		binary.BigEndian.PutUint16(b[6:], m.seq)
	}
	b = append(b, m.body...)
	binary.BigEndian.PutUint16(b[2:], checksum(icmpPseudo(h, len(b)), b))
	return b
}

// icmpPseudo begins the checksum: ICMP for IPv4 covers no pseudo header.
func icmpPseudo(h *ipHeader, length int) uint32 {
	if h.family() == cidr.V4 {
		return 0
	}
	return pseudoSum(h.src, h.dst, protoICMP6, length)
}

func icmpProto(f cidr.Family) uint8 { return [...]uint8{protoICMP4, protoICMP6}[f] }

// parseICMP reads the payload of a packet with that header.
func parseICMP(h *ipHeader, b []byte) (icmpMessage, error) {
	if len(b) < 8 {
		return icmpMessage{}, errShort
	}
	if checksum(icmpPseudo(h, len(b)), b) != 0 {
		return icmpMessage{}, errChecksum
	}
	f := h.family()
	m := icmpMessage{body: b[8:]}
	for k := icmpEcho; k <= icmpTimeExceeded; k++ {
		if icmpNumbers[k][f] == [2]uint8{b[0], b[1]} {
			m.kind = k
		}
	}
	switch {
	case m.kind == icmpTooBig && f == cidr.V4:
		m.mtu = int(binary.BigEndian.Uint16(b[6:]))
	case m.kind == icmpTooBig:
		m.mtu = int(binary.BigEndian.Uint32(b[4:]))
	case !m.kind.isError():
		m.id, m.seq = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	}
	return m, nil
}
