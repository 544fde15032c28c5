package kernel

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// encapsulate sends a frame out of a vxlan link: its forwarding entry names the
// host, an ordinary route leads there. An outer IPv4 packet may be fragmented
// on its way, as on Linux.
func (v *vxlanDevice) encapsulate(frame []byte, p *Probe) {
	l, s := v.link, v.link.stack
	head, packet, err := parseEther(frame)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	entry, ok := l.fdb.get(head.dst)
	if !ok {
		entry, ok = l.fdb.get(dataplane.MAC{}) // the host for unknown addresses
	}
	if !ok {
		s.drop(p, DropFDBMissing, head.dst.String()+" dev "+l.name)
		return
	}
	if entry.value.IsUnspecified() {
		s.drop(p, DropFDBMissing, head.dst.String()+" leads to a foreign next hop dev "+l.name)
		return
	}
	src := v.Local
	if !src.IsValid() {
		src = s.sourceFor(entry.value)
	}
	r := s.fibs[cidr.FamilyOf(entry.value)].lookup(entry.value)
	switch {
	case !s.isLocal(entry.value) && (r == nil || r.link == nil):
		s.drop(p, noRoute(r), "outer "+entry.value.String())
		return
	case !s.isLocal(entry.value) && r.link == l:
		s.drop(p, DropLoop, fmt.Sprintf("outer %s dev %s", entry.value, l.name))
		return
	}
	if !src.IsValid() || src.Is4() && !s.isLocal(src) {
		s.drop(p, DropBadSource, src.String())
		return
	}
	if s.spoilsChecksums && s.sysctls[dataplane.TxChecksum(l.name, "").Path] == dataplane.FeatureOn {
		frame = spoilChecksum(frame, packet)
	}
	p.pass(s, "encap", fmt.Sprintf("%s vni %d to %s", l.name, v.VNI, entry.value))
	outer := ipHeader{src: src, dst: entry.value, proto: protoUDP, ttl: v.ttl}
	datagram := udpDatagram{src: flowPort(packet), dst: v.Port, body: vxlanFrame(v.VNI, frame)}
	s.send(outer, datagram.payload(&outer), p)
}

// spoilChecksum returns the frame with a wrong checksum in its TCP segment or UDP
// datagram, as from a network card that computes wrong ones inside tunnels. It leaves
// ICMP alone, whose checksum the kernel computes. The packet is the end of the frame.
func spoilChecksum(frame, packet []byte) []byte {
	h, payload, err := parseIP(packet)
	at, has := map[uint8]int{protoTCP: 16, protoUDP: 6}[h.proto]
	if err != nil || !has || h.offset > 0 || len(payload) < at+2 {
		return frame
	}
	spoiled := bytes.Clone(frame)
	spoiled[len(frame)-len(packet)+h.size+at] ^= 0xff
	return spoiled
}

// decapsulate passes the frame in a datagram to its vxlan link.
func (s *stack) decapsulate(outer ipHeader, d udpDatagram, p *Probe) {
	vni, frame, err := parseVXLAN(d.body)
	if err != nil {
		s.drop(p, DropMalformed, err.Error())
		return
	}
	for _, l := range s.links {
		v, ok := l.device.(*vxlanDevice)
		if !ok || !l.up || v.Port != d.dst || v.outer != outer.family() || v.VNI != vni {
			continue
		}
		head, _, err := parseEther(frame)
		switch {
		case err != nil:
			s.drop(p, DropMalformed, err.Error())
			return
		case head.src == l.mac:
			s.drop(p, DropLoop, "our own MAC dev "+l.name)
			return
		case v.Learning && !l.learn(head.src, outer.src):
			s.drop(p, DropFDBConflict, fmt.Sprintf("%s from %s dev %s", head.src, outer.src, l.name))
			return
		}
		p.pass(s, "decap", l.name)
		l.receive(frame, p)
		return
	}
	s.drop(p, DropVNIMismatch, fmt.Sprintf("vni %d", vni))
}

// learn records the host of a MAC, and reports whether it may: a permanent
// entry for another host wins over an arriving frame.
func (l *link) learn(mac dataplane.MAC, from netip.Addr) bool {
	e, ok := l.fdb.get(mac)
	if ok && e.permanent {
		return e.value == from
	}
	l.fdb.set(mac, fdbEntry{from, false})
	return true
}
