package kernel

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// pmtuTime is the lifetime of a learnt path MTU (Linux
// net.ipv4.route.mtu_expires).
const pmtuTime = 10 * time.Minute

// pathMTU is a path MTU learnt from ICMP.
type pathMTU struct {
	mtu   int
	until time.Time
}

// send routes a packet that this host originates.
func (s *stack) send(h ipHeader, payload []byte, p *Probe) {
	if h.ttl == 0 {
		h.ttl = defaultTTL
	}
	s.ipID++
	h.id = s.ipID
	if s.isLocal(h.dst) {
		s.deliver(h, payload, p)
		return
	}
	payload = s.nat.outward(h, payload)
	r := s.fibs[h.family()].lookup(h.dst)
	if r == nil || r.link == nil {
		s.drop(p, noRoute(r), h.dst.String())
		return
	}
	sa, why := s.protection(h)
	if why != "" {
		s.drop(p, why, h.dst.String())
		return
	}
	mtu := s.mtuTo(h.dst, r)
	if sa != nil {
		mtu = sa.espMTU(mtu)
	}
	packet := h.packet(payload)
	h.size = len(packet) - len(payload)
	h, packet, ok := s.leave(h, packet, r, 0, p)
	if !ok {
		return
	}
	switch {
	case len(packet) <= mtu:
		s.put(sa, r, h, packet, p)
	case h.df:
		p.tooBig(mtu)
		s.drop(p, DropTooBig, fmt.Sprintf("%d bytes, MTU %d", len(packet), mtu))
	default:
		for _, part := range fragments(h, packet[h.size:], mtu) {
			s.put(sa, r, h, part, p)
		}
	}
}

// put sends a packet that fits through the tunnel of an association, or by the
// route if there is none.
func (s *stack) put(sa *association, r *route, h ipHeader, packet []byte, p *Probe) {
	if sa != nil {
		s.tunnel(sa, h, packet, p)
		return
	}
	s.emit(r, h.dst, packet, p)
}

// mtuTo returns the largest packet that this host may send to a destination by a
// route, nil for a local one.
func (s *stack) mtuTo(dst netip.Addr, r *route) int {
	if r == nil {
		return maxMTU
	}
	mtu := r.link.mtu
	if learnt, ok := s.pmtu[dst]; ok && learnt.until.After(s.world.Now()) {
		mtu = min(mtu, learnt.mtu)
	}
	return mtu
}

// leave passes a packet that is about to go out by a route through the chains
// at the hook postrouting, which may change it. It returns false if the packet
// is dropped.
func (s *stack) leave(h ipHeader, packet []byte, r *route, mark uint32, p *Probe) (ipHeader, []byte, bool) {
	if !s.filter.tracks(h.family()) {
		return h, packet, true
	}
	src := h.src
	h, payload, ok := s.filter.postrouting(h, packet[h.size:], r, mark)
	if !ok {
		s.drop(p, DropFirewall, "no address to masquerade with dev "+r.link.name)
		return h, nil, false
	}
	if h.src != src {
		p.pass(s, "masquerade", h.src.String())
	}
	packet = h.packet(payload)
	h.size = len(packet) - len(payload)
	return h, packet, true
}

// forward sends on a packet that came in by a link.
func (s *stack) forward(in *link, h ipHeader, packet []byte, p *Probe) {
	if why := s.admission(dataplane.PolicyForward, h); why != "" {
		s.drop(p, why, h.src.String())
		return
	}
	if h.ttl <= 1 {
		s.refuse(DropTTL, "", icmpMessage{kind: icmpTimeExceeded}, packet, p)
		return
	}
	r := s.fibs[h.family()].lookup(h.dst)
	if r == nil || r.link == nil {
		s.refuse(noRoute(r), h.dst.String(), icmpMessage{kind: icmpNoRoute}, packet, p)
		return
	}
	sa, why := s.protection(h)
	if why != "" {
		s.drop(p, why, h.dst.String())
		return
	}
	p.pass(s, "forward", r.link.name)
	packet = h.hopped(packet)
	h.ttl--
	mtu := r.link.mtu
	if sa != nil {
		mtu = sa.espMTU(mtu)
	}
	if len(packet) > mtu && h.df && !h.joined {
		why := fmt.Sprintf("%d bytes, MTU %d", len(packet), mtu)
		s.refuse(DropTooBig, why, icmpMessage{kind: icmpTooBig, mtu: mtu}, packet, p)
		return
	}
	mark := uint32(0)
	if s.filter != nil {
		mark = s.filter.mark
		by, drops := s.filter.dropsForward(in.name, h.family(), dataplane.Packet{Src: h.src, Dst: h.dst, Mark: mark})
		if drops {
			s.drop(p, DropFirewall, by)
			return
		}
	}
	h, packet, ok := s.leave(h, packet, r, mark, p)
	if !ok {
		return
	}
	parts := [][]byte{packet}
	if len(packet) > mtu {
		parts = fragments(h, packet[h.size:], mtu)
	}
	for _, part := range parts {
		s.put(sa, r, h, part, p)
	}
}

// noRoute returns the reason: no route, or one that leads nowhere.
func noRoute(r *route) Drop {
	if r == nil {
		return DropNoRoute
	}
	return DropBlackhole
}

// emit puts a packet that fits onto the link of a route.
func (s *stack) emit(r *route, dst netip.Addr, packet []byte, p *Probe) {
	next := dst
	if r.via.IsValid() {
		next = r.via
	}
	if r.link.device.carryPacket(packet, next, p) {
		return
	}
	mac, why := r.link.resolve(next)
	if why != "" {
		detail := fmt.Sprintf("%s dev %s", next, r.link.name)
		if why == DropNeighFailed {
			s.refuse(why, detail, icmpMessage{kind: icmpNoHost}, packet, p)
		} else {
			s.drop(p, why, detail)
		}
		return
	}
	r.link.transmit(etherFrame(mac, r.link.mac, packet), p)
}

// resolve finds a neighbour's link address. A vxlan link cannot ask for it: an
// address that is not in its table is missing.
func (l *link) resolve(ip netip.Addr) (dataplane.MAC, Drop) {
	if n, ok := l.neighs.get(ip); ok {
		return n.value, ""
	}
	switch {
	case !l.device.asksNeighbours():
		return dataplane.MAC{}, DropNeighMissing
	case l.wire == nil || !l.carrier:
		return dataplane.MAC{}, DropNoCarrier
	}
	return l.wire.resolve(ip)
}

// transmit sends a frame out of the link.
func (l *link) transmit(frame []byte, p *Probe) {
	if !l.up || l.cutOff() {
		l.stack.drop(p, DropLinkDown, l.name)
		return
	}
	if l.device.carryFrame(frame, p) {
		return
	}
	if l.wire == nil || !l.carrier {
		l.stack.drop(p, DropNoCarrier, l.name)
		return
	}
	l.wire.send(frame, p)
}

// refuse drops a packet and reports the reason to its sender, if ICMP may:
// never about an ICMP error, nor about a later fragment.
func (s *stack) refuse(why Drop, detail string, m icmpMessage, packet []byte, p *Probe) {
	h, payload, err := parseIP(packet)
	quiet := err != nil || h.offset > 0
	if !quiet && h.proto == icmpProto(h.family()) {
		inner, err := parseICMP(&h, payload)
		quiet = err != nil && !h.more || inner.kind.isError() || inner.kind == icmpOther
	}
	if quiet || s.isLocal(h.src) {
		s.drop(p, why, detail)
		return
	}
	f := h.family()
	src := s.sourceFor(h.src)
	if !src.IsValid() {
		s.drop(p, why, detail)
		return
	}
	p.refused(s, why, detail)
	s.noteDrop(why, detail)
	most := [...]int{576 - 28, minMTU6 - 48}[f]
	m.body = packet[:min(len(packet), most)]
	answer := ipHeader{src: src, dst: h.src, proto: icmpProto(f)}
	s.send(answer, m.payload(&answer), p)
}

// sourceFor returns the source address of the host's own packets to a
// destination: the one that the route prefers, an address of its link, or any
// other global one.
func (s *stack) sourceFor(dst netip.Addr) netip.Addr {
	if s.isLocal(dst) {
		return dst
	}
	r := s.fibs[cidr.FamilyOf(dst)].lookup(dst)
	if r == nil || r.link == nil {
		return netip.Addr{}
	}
	if r.src.IsValid() {
		return r.src
	}
	next := dst
	if r.via.IsValid() {
		next = r.via
	}
	if a := r.link.sourceFor(next); a.IsValid() {
		return a
	}
	for _, l := range s.links {
		if a := l.sourceFor(next); a.IsValid() && l.device != loopback {
			return a
		}
	}
	return netip.Addr{}
}

// sourceFor returns the link's address nearest to a neighbour: one in a common
// subnet, or else the first global one.
func (l *link) sourceFor(next netip.Addr) netip.Addr {
	var first netip.Addr
	for _, a := range l.addrs[cidr.FamilyOf(next)] {
		ip := a.prefix.Addr()
		if ip.IsLinkLocalUnicast() != next.IsLinkLocalUnicast() {
			continue
		}
		if a.prefix.Contains(next) {
			return ip
		}
		if !first.IsValid() {
			first = ip
		}
	}
	return first
}
