package kernel

import (
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// receive handles a frame from the link, as the kernel does in ip_rcv.
func (l *link) receive(frame []byte, p *Probe) {
	s := l.stack
	head, packet, err := parseEther(frame)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	f, ok := etherFamily(head.kind)
	switch {
	case !l.up || !l.carrier || l.cutOff():
		s.drop(p, DropLinkDown, l.name)
		return
	case head.dst != l.mac:
		s.drop(p, DropNotMine, "frame to "+head.dst.String()+" dev "+l.name)
		return
	case !ok:
		s.drop(p, DropMalformed, "frame carries no IP")
		return
	case f == cidr.V6 && (!l.has6 || l.disabled6()):
		s.drop(p, DropNotMine, "IPv6 is disabled dev "+l.name)
		return
	}
	l.receiveIP(packet, p)
}

// receiveIP handles a packet from the link.
func (l *link) receiveIP(packet []byte, p *Probe) { l.receiveSecured(packet, nil, p) }

// receiveSecured handles a packet that came through the tunnel of an association, or in the
// clear if sa is nil.
func (l *link) receiveSecured(packet []byte, sa *association, p *Probe) {
	s := l.stack
	h, payload, err := parseIP(packet)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	packet = packet[:h.size+len(payload)]
	if s.filter.tracks(h.family()) {
		if h.fragment() { // connection tracking needs whole packets
			whole, body, ok := s.reassemble(h, payload, p)
			if !ok {
				return
			}
			h, payload = whole, body
			h.joined = true
		}
		h, payload = s.filter.prerouting(h, payload)
		packet = h.packet(payload)
		h.size = len(packet) - len(payload)
	}
	if s.nat.outer != 0 {
		inside, passes := s.nat.inward(h, payload)
		if !passes {
			s.drop(p, DropNotMine, "no port of the NAT")
			return
		}
		payload = inside
		packet = h.packet(payload)
	}
	if s.nat.private != nil {
		h, payload = s.nat.translate(h, payload)
		packet = h.packet(payload)
		h.size = len(packet) - len(payload)
	}
	h.in, h.sa = l.name, sa
	switch {
	case s.martian(l, h.src):
		s.drop(p, DropMartian, h.src.String()+" dev "+l.name)
	case sa == nil && !s.passesReversePath(l, h.src):
		s.drop(p, DropRPFilter, h.src.String()+" dev "+l.name)
	case s.isLocal(h.dst):
		s.deliver(h, payload, p)
	case !s.forwards(l, h.family()):
		s.drop(p, DropNotMine, h.dst.String()+" dev "+l.name)
	default:
		s.forward(l, h, packet, p)
	}
}

// forwards reports whether the host forwards packets that come in by a link. For
// IPv4 the link's setting decides, for IPv6 that of the host (Linux
// net/ipv4/route.c, ip_route_input_slow; net/ipv6/ip6_output.c, ip6_forward).
func (s *stack) forwards(l *link, f cidr.Family) bool {
	if f == cidr.V6 {
		return isOn(s.sysctls[sysctlForward6])
	}
	return isOn(s.setting(l, f, "forwarding"))
}

// forwardsNothing reports whether the host certainly forwards no packet of a family
// that comes in by a link.
func (s *stack) forwardsNothing(l *link, f cidr.Family) bool {
	_, exists := s.sysctls[dataplane.Forwarding(f).Path]
	return exists && !s.forwards(l, f)
}

// martian reports whether an IPv4 packet that came in by a link claims to be
// from this host.
func (s *stack) martian(l *link, src netip.Addr) bool {
	return src.Is4() && s.isLocal(src) && !isOn(s.setting(l, cidr.V4, "accept_local"))
}

// passesReversePath is the reverse path filter: strict wants the packet from the
// link by which a reply would leave, loose wants any route back.
func (s *stack) passesReversePath(l *link, src netip.Addr) bool {
	if src.Is6() {
		return true
	}
	mode := max(s.setting(l, cidr.V4, "rp_filter"), s.sysctls[sysctlRPFilter])
	if mode == "0" {
		return true
	}
	r := s.fibs[cidr.V4].lookup(src)
	return r != nil && r.link != nil && (mode == "2" || r.link == l)
}

// deliver handles a packet addressed to this host.
func (s *stack) deliver(h ipHeader, payload []byte, p *Probe) {
	if h.fragment() {
		whole, body, ok := s.reassemble(h, payload, p)
		if !ok {
			return
		}
		h, payload = whole, body
	}
	if h.proto != protoESP {
		if why := s.admission(dataplane.PolicyIn, h); why != "" {
			s.drop(p, why, h.src.String())
			return
		}
	}
	if s.blocksInput(h, payload) {
		s.drop(p, DropFirewall, "the host's own rules")
		return
	}
	if by, drops := s.filter.dropsInput(inputPacket(h, payload)); drops {
		s.drop(p, DropFirewall, by)
		return
	}
	switch h.proto {
	case icmpProto(h.family()):
		s.deliverICMP(h, payload, p)
	case protoUDP:
		s.deliverUDP(h, payload, p)
	case protoTCP:
		s.deliverTCP(h, payload, p)
	case protoIPIP:
		s.deliverIPIP(h, payload, p)
	case protoESP:
		s.deliverESP(h, payload, p)
	default:
		s.drop(p, DropNoListener, "unknown protocol")
	}
}

func (s *stack) deliverICMP(h ipHeader, payload []byte, p *Probe) {
	m, err := parseICMP(&h, payload)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	switch {
	case m.kind == icmpEcho:
		p.arrived(s, h.src)
		s.hear(h.src, m.body)
		m.kind = icmpEchoReply
		answer := ipHeader{src: h.dst, dst: h.src, proto: h.proto}
		s.send(answer, m.payload(&answer), p)
	case m.kind == icmpEchoReply:
		p.answered(s, m.id)
	case m.kind == icmpTooBig:
		if about, _, err := parseQuote(m.body); err == nil {
			s.pmtu[about.dst] = pathMTU{m.mtu, s.world.Now().Add(pmtuTime)}
		}
		p.tooBig(m.mtu)
		p.told(s, m.kind)
	case m.kind.isError():
		p.told(s, m.kind)
	}
}

// parseQuote reads the header of the packet that an ICMP error quotes. The quote
// may be truncated.
func parseQuote(b []byte) (ipHeader, []byte, error) {
	h, payload, err := parseIP(b)
	if err == nil || len(b) < 20 {
		return h, payload, err
	}
	whole := append([]byte(nil), b...)
	if b[0]>>4 == 6 && len(b) >= 40 {
		whole = append(whole, make([]byte, int(b[4])<<8|int(b[5]))...)
	} else {
		whole = append(whole, make([]byte, int(b[2])<<8|int(b[3]))...)
	}
	return parseIP(whole)
}

func (s *stack) deliverUDP(h ipHeader, payload []byte, p *Probe) {
	d, err := parseUDP(&h, payload)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	if s.isESPInUDP(d, h.family()) {
		s.deliverESP(h, d.body, p)
		return
	}
	if k := s.socketAt(netip.AddrPortFrom(h.dst, d.dst)); k != nil {
		k.deliver(h, d, p)
		return
	}
	if s.vxlanAt(d.dst, h.family()) == nil {
		s.refuse(DropNoListener, h.dst.String(), icmpMessage{kind: icmpNoPort}, h.packet(payload), p)
		return
	}
	s.decapsulate(h, d, p)
}
