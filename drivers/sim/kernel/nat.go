package kernel

import (
	"encoding/binary"
	"net/netip"
)

// nat is a router's static translation between the hosts' own addresses and the
// public addresses under which others reach them. It translates the protocols that
// carry the tunnels: UDP and IP in IP.
type nat struct {
	private map[netip.Addr]netip.Addr // by public address
	public  map[netip.Addr]netip.Addr // by private address

	inner, outer uint16 // a port of this host, and the one under which others see it; 0: none
}

// TranslatePort makes others see a UDP port of the host under another number, as a NAT in
// front of the host does. Datagrams to the port itself are lost. An outer port of 0 ends that.
func (h *Host) TranslatePort(inner, outer uint16) {
	n := &h.stack.nat
	n.inner = 0
	n.outer = outer
	if outer != 0 {
		n.inner = inner
	}
}

// outward translates a packet that the host sends.
func (n *nat) outward(h ipHeader, payload []byte) []byte {
	u, err := parseUDP(&h, payload)
	if n.outer == 0 || h.proto != protoUDP || err != nil || u.src != n.inner {
		return payload
	}
	u.src = n.outer
	return u.payload(&h)
}

// inward translates a packet that the host gets, or returns false for one that is lost.
func (n *nat) inward(h ipHeader, payload []byte) ([]byte, bool) {
	u, err := parseUDP(&h, payload)
	if n.outer == 0 || h.proto != protoUDP || err != nil || u.dst != n.inner && u.dst != n.outer {
		return payload, true
	}
	passes := u.dst == n.outer
	u.dst = n.inner
	return u.payload(&h), passes
}

// Translate makes a router translate between a public and a private address.
func (h *Host) Translate(public, private netip.Addr) {
	n := &h.stack.nat
	if n.private == nil {
		n.private, n.public = map[netip.Addr]netip.Addr{}, map[netip.Addr]netip.Addr{}
	}
	delete(n.public, n.private[public])
	n.private[public] = private
	n.public[private] = public
}

// translate replaces a public destination and a private source.
func (n *nat) translate(h ipHeader, payload []byte) (ipHeader, []byte) {
	if h.proto != protoUDP && h.proto != protoIPIP {
		return h, payload
	}
	payload = append([]byte(nil), payload...)
	if private, ok := n.private[h.dst]; ok {
		adjustUDP(&h, payload, h.dst, private)
		h.dst = private
	}
	if public, ok := n.public[h.src]; ok {
		adjustUDP(&h, payload, h.src, public)
		h.src = public
	}
	return h, payload
}

// adjustUDP corrects the checksum of a datagram for a changed address (RFC 1624).
func adjustUDP(h *ipHeader, payload []byte, before, now netip.Addr) {
	if h.proto != protoUDP || h.offset > 0 || len(payload) < udpLen {
		return
	}
	given := binary.BigEndian.Uint16(payload[6:])
	if given == 0 {
		return // without a checksum
	}
	change := before.AsSlice()
	for i := range change {
		change[i] = ^change[i]
	}
	change = append(change, now.AsSlice()...)
	sum := checksum(uint32(^given), change)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(payload[6:], sum)
}
