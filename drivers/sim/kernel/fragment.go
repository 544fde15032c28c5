package kernel

import (
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// reassemblyTime is how long a host waits for the missing fragments of a packet
// (Linux net.ipv4.ipfrag_time).
const reassemblyTime = 30 * time.Second

// fragments splits a packet so that each part fits the MTU. Only its sender may
// split an IPv6 packet.
func fragments(h ipHeader, payload []byte, mtu int) [][]byte {
	room := mtu - h.size
	if h.family() == cidr.V6 && h.size == 40 {
		room -= 8
	}
	room &^= 7
	if room <= 0 {
		return nil
	}
	var out [][]byte
	first, rest := h.offset, h.more
	for at := 0; at < len(payload); at += room {
		end := min(at+room, len(payload))
		h.offset, h.more = first+at, rest || end < len(payload)
		out = append(out, h.packet(payload[at:end]))
	}
	return out
}

// fragKey names the packet to which fragments belong.
type fragKey struct {
	src, dst netip.Addr
	proto    uint8
	id       uint32
}

// reassembly is an incomplete packet.
type reassembly struct {
	parts []fragPart   // by offset, without overlap
	total int          // of the payload, -1 while unknown
	end   *world.Event // when the wait ends
}

type fragPart struct {
	offset int
	data   []byte
}

// reassemble keeps a fragment, and returns the whole packet with the last
// missing one. It refuses overlapping fragments (RFC 5722), duplicates
// included: it assumes wires without them.
func (s *stack) reassemble(h ipHeader, payload []byte, p *Probe) (ipHeader, []byte, bool) {
	key := fragKey{h.src, h.dst, h.proto, h.id}
	r := s.parts[key]
	if r == nil {
		r = &reassembly{total: -1}
		r.end = s.world.After(reassemblyTime, s.name+": reassembly", func() {
			delete(s.parts, key)
			s.drop(p, DropReassembly, h.dst.String())
		})
		s.parts[key] = r
	}
	if !h.more {
		r.total = h.offset + len(payload)
	}
	at, found := slices.BinarySearchFunc(r.parts, h.offset, func(p fragPart, o int) int { return p.offset - o })
	overlaps := found || at > 0 && r.parts[at-1].offset+len(r.parts[at-1].data) > h.offset ||
		at < len(r.parts) && h.offset+len(payload) > r.parts[at].offset
	if overlaps {
		s.drop(p, DropReassembly, "overlap")
		return h, nil, false
	}
	r.parts = slices.Insert(r.parts, at, fragPart{h.offset, payload})
	whole := make([]byte, 0, max(r.total, 0))
	for _, part := range r.parts {
		if part.offset != len(whole) {
			return h, nil, false
		}
		whole = append(whole, part.data...)
	}
	if r.total < 0 || len(whole) != r.total {
		return h, nil, false
	}
	r.end.Cancel()
	delete(s.parts, key)
	h.offset, h.more = 0, false
	return h, whole, true
}
