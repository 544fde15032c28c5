package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// Sizes of ESP in a tunnel with AES-GCM (RFC 4106), in bytes.
const (
	espHeader  = 4 + 4 // SPI, sequence number
	espIV      = 8
	espICV     = 16
	espTrailer = 2 // length of the padding, next header
	espAlign   = 4
)

// espPort is the UDP port of ESP in UDP, which it shares with IKE (RFC 3948).
const espPort = 4500

// Association is a security association: the key of one direction of a tunnel.
type Association struct {
	SPI      uint32
	From, To netip.Addr // the ends of the tunnel
	ReqID    uint32
	Key      uint64
	UDP      bool // ESP travels in UDP
}

// association is an Association of a host's kernel.
type association struct {
	Association
	seq     uint32        // of the last packet sent
	arrived time.Duration // when the last packet came in through it, in virtual time
}

// AddAssociation gives the kernel a security association.
func (h *Host) AddAssociation(a Association) {
	h.stack.associations = append(h.stack.associations, &association{Association: a})
	h.world.Note(h.name+": association", fmt.Sprintf("add %s to %s spi %#x", a.From, a.To, a.SPI))
}

// DeleteAssociation takes a security association from the kernel.
func (h *Host) DeleteAssociation(to netip.Addr, spi uint32) {
	h.stack.associations = slices.DeleteFunc(h.stack.associations, func(a *association) bool {
		return a.To == to && a.SPI == spi
	})
	h.world.Note(h.name+": association", fmt.Sprintf("delete to %s spi %#x", to, spi))
}

// Associations returns the security associations, oldest first.
func (h *Host) Associations() []Association {
	var all []Association
	for _, a := range h.stack.associations {
		all = append(all, a.Association)
	}
	return all
}

// LastArrival returns the virtual time at which the last packet came in through a
// security association; 0: none did.
func (h *Host) LastArrival(to netip.Addr, spi uint32) time.Duration {
	if a := h.stack.associationBy(to, spi); a != nil {
		return a.arrived
	}
	return 0
}

// associationBy returns the association of a packet that came in, or nil.
func (s *stack) associationBy(to netip.Addr, spi uint32) *association {
	at := slices.IndexFunc(s.associations, func(a *association) bool { return a.SPI == spi && a.To == to })
	if at < 0 {
		return nil
	}
	return s.associations[at]
}

// outbound returns the youngest association that a policy can use, or nil.
func (s *stack) outbound(p dataplane.Policy) *association {
	for _, a := range slices.Backward(s.associations) {
		if a.From == p.From && a.To == p.To && a.ReqID == p.ReqID {
			return a
		}
	}
	return nil
}

// protection returns what the policies demand for a packet that is about to leave:
// a tunnel, nothing, or a reason to drop it.
func (s *stack) protection(h ipHeader) (*association, Drop) {
	p, found := s.policyFor(dataplane.PolicyOut, h.src, h.dst)
	switch {
	case !found || p.Action == dataplane.Allow:
		return nil, ""
	case p.Action == dataplane.Block:
		return nil, DropPolicyBlock
	}
	a := s.outbound(p)
	if a == nil {
		return nil, DropNoAssociation
	}
	return a, ""
}

// admission returns the reason why the policies refuse a packet that came in, or "".
// They demand the tunnel that they name, and accept no other.
func (s *stack) admission(dir dataplane.Direction, h ipHeader) Drop {
	p, found := s.policyFor(dir, h.src, h.dst)
	switch {
	case found && p.Action == dataplane.Block:
		return DropPolicyBlock
	case found && p.Action == dataplane.Protect:
		if h.sa == nil || h.sa.From != p.From || h.sa.To != p.To || h.sa.ReqID != p.ReqID {
			return DropUnprotected
		}
	case h.sa != nil:
		return DropUnprotected
	}
	return ""
}

// espMTU returns the size of the largest packet that fits through a tunnel whose
// own packets may have mtu bytes (Linux net/xfrm/xfrm_state.c, xfrm_state_mtu).
func (a *association) espMTU(mtu int) int {
	overhead := 20 + espHeader + espIV + espICV
	if a.UDP {
		overhead += udpLen
	}
	return (mtu-overhead)&^(espAlign-1) - espTrailer
}

// tunnel sends a packet through the tunnel of an association.
func (s *stack) tunnel(a *association, h ipHeader, packet []byte, p *Probe) {
	a.seq++
	payload := a.seal(packet)
	outer := ipHeader{src: a.From, dst: a.To, proto: protoESP, df: h.df}
	if a.UDP {
		outer.proto = protoUDP
		d := udpDatagram{src: espPort, dst: espPort, body: payload}
		payload = d.payload(&outer)
	}
	p.pass(s, "encap", fmt.Sprintf("esp to %s", a.To))
	s.send(outer, payload, p)
}

// seal encrypts a packet. The cipher is a model: the result depends on the key, has
// the right size, and shows nothing of the packet.
func (a *association) seal(packet []byte) []byte {
	b := make([]byte, espHeader+espIV, espHeader+espIV+len(packet)+espAlign+espTrailer+espICV)
	binary.BigEndian.PutUint32(b, a.SPI)
	binary.BigEndian.PutUint32(b[4:], a.seq)
	binary.BigEndian.PutUint64(b[8:], uint64(a.seq))
	body := append([]byte(nil), packet...)
	padding := (espAlign - (len(packet)+espTrailer)%espAlign) % espAlign
	body = append(body, make([]byte, padding)...)
	body = append(body, byte(padding), protoIPIP)
	a.cipher(a.seq, body)
	b = append(b, body...)
	return append(b, a.sum(b)...)
}

// open decrypts a packet. It returns false if the packet was not sealed with the key.
func (a *association) open(b []byte) ([]byte, bool) {
	end := len(b) - espICV
	if end < espHeader+espIV+espTrailer || !bytes.Equal(a.sum(b[:end]), b[end:]) {
		return nil, false
	}
	body := append([]byte(nil), b[espHeader+espIV:end]...)
	a.cipher(binary.BigEndian.Uint32(b[4:]), body)
	padding := int(body[len(body)-2])
	if padding+espTrailer > len(body) {
		return nil, false
	}
	return body[:len(body)-espTrailer-padding], true
}

// cipher encrypts or decrypts in place.
func (a *association) cipher(seq uint32, b []byte) {
	state := a.Key ^ uint64(seq)
	for i := range b {
		if i%8 == 0 {
			state = world.HashUint64(state, uint64(i))
		}
		b[i] ^= byte(state >> (8 * (i % 8)))
	}
}

func (a *association) sum(b []byte) []byte {
	hash := a.Key
	for _, c := range b {
		hash = (hash ^ uint64(c)) * world.HashPrime
	}
	out := make([]byte, espICV)
	binary.BigEndian.PutUint64(out, hash)
	return out
}

// deliverESP takes a packet out of its tunnel.
func (s *stack) deliverESP(outer ipHeader, b []byte, p *Probe) {
	if len(b) < espHeader {
		s.drop(p, DropMalformed, errShort.Error())
		return
	}
	spi := binary.BigEndian.Uint32(b)
	a := s.associationBy(outer.dst, spi)
	if a == nil {
		s.drop(p, DropUnknownSPI, fmt.Sprintf("%#x", spi))
		return
	}
	packet, ok := a.open(b)
	if !ok {
		s.drop(p, DropMalformed, fmt.Sprintf("wrong key for %#x", spi))
		return
	}
	a.arrived = s.world.Elapsed()
	p.pass(s, "decap", "esp from "+outer.src.String())
	s.local[outer.dst][0].receiveSecured(packet, a, p)
}

// isESPInUDP reports whether a datagram carries ESP: one of IKE begins with four
// zero bytes (RFC 3948).
func (s *stack) isESPInUDP(d udpDatagram, f cidr.Family) bool {
	return d.dst == espPort && f == cidr.V4 && len(d.body) >= 4 && binary.BigEndian.Uint32(d.body) != 0 &&
		s.boundAt(espPort, f)
}

// Ends returns the outermost addresses of a frame's packet, and whether that is ESP, in
// UDP or not. It returns zero addresses for a frame without an IPv4 packet.
func Ends(frame []byte) (src, dst netip.Addr, esp bool) {
	head, rest, err := parseEther(frame)
	if err != nil || head.kind != etherIPv4 {
		return src, dst, false
	}
	h, payload, err := parseIP(rest)
	if err != nil {
		return src, dst, false
	}
	const udpESP = udpLen + espHeader
	inUDP := h.proto == protoUDP && len(payload) >= udpESP && binary.BigEndian.Uint16(payload[2:]) == espPort &&
		binary.BigEndian.Uint32(payload[udpLen:]) != 0
	return h.src, h.dst, h.proto == protoESP || inUDP
}
