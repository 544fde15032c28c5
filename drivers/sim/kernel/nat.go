package kernel

import (
	"encoding/binary"
	"net/netip"
)

// nat is a router's static translation between hosts' own addresses and the
// public addresses under which others reach them. It translates the protocols that
// carry the tunnels: UDP and IP in IP.
type nat struct {
	private map[netip.Addr]netip.Addr // by public address
	public  map[netip.Addr]netip.Addr // by private address
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
