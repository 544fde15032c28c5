package kernel

import "encoding/binary"

// blocked is a kind of packet that a host's own firewall drops on input.
type blocked struct {
	proto uint8
	port  uint16 // the destination; 0: every port, and packets without one
}

// Protocol is a protocol above IP: its number for IPv4 and for IPv6.
type Protocol [2]uint8

// The protocols that a host can block.
var (
	ICMP = Protocol{protoICMP4, protoICMP6}
	TCP  = Protocol{protoTCP, protoTCP}
	UDP  = Protocol{protoUDP, protoUDP}
)

// Block makes the host's own firewall drop packets of a protocol to a port of the host (0:
// to every port), or ends that. Neighbour discovery still works.
func (h *Host) Block(p Protocol, port uint16, on bool) error {
	for _, proto := range p {
		if !on {
			delete(h.stack.blocks, blocked{proto, port})
			continue
		}
		if h.stack.blocks == nil {
			h.stack.blocks = map[blocked]bool{}
		}
		h.stack.blocks[blocked{proto, port}] = true
	}
	return h.action(nil, "block protocol %d port %d %t", p[0], port, on)
}

// blocksInput reports whether the host's own firewall drops a packet to the host.
func (s *stack) blocksInput(h ipHeader, payload []byte) bool {
	if len(s.blocks) == 0 {
		return false
	}
	if s.blocks[blocked{h.proto, 0}] {
		return true
	}
	hasPort := h.proto == protoTCP || h.proto == protoUDP
	return hasPort && len(payload) >= 4 && s.blocks[blocked{h.proto, binary.BigEndian.Uint16(payload[2:])}]
}
