package udppath

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// super describes a packet that is to be cut.
type super struct {
	proto        byte
	options      int // words of IPv4 options
	upperOptions int // words of TCP options
	flags        byte
	fragment     uint16
	size         int // of a segment
	payload      int
	id           uint16
	sequence     uint32
}

// build returns the packet as the kernel leaves it, and its vnet header.
func (s super) build() ([]byte, Vnet) {
	transport := minHeader + 4*s.options
	header := transport + sizeUDP
	v := Vnet{Flags: VnetNeedsCsum, GSOType: VnetGSOUDP, CsumStart: uint16(transport), CsumOffset: 6}
	if s.proto == protoTCP {
		header = transport + minTCP + 4*s.upperOptions
		v.GSOType, v.CsumOffset = VnetGSOTCPv4, 16
	}
	v.HeaderLen, v.GSOSize = uint16(header), uint16(s.size)
	b := make([]byte, header+s.payload)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13)
	}
	b[0], b[8] = byte(0x45+s.options), 64
	b[9] = s.proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], s.id)
	binary.BigEndian.PutUint16(b[6:], s.fragment)
	copy(b[12:], []byte{10, 5, 1, 7, 10, 5, 2, 9})
	if s.proto == protoTCP {
		binary.BigEndian.PutUint32(b[transport+4:], s.sequence)
		b[transport+12], b[transport+13] = byte(5+s.upperOptions)<<4, s.flags
	} else {
		binary.BigEndian.PutUint16(b[transport+4:], uint16(len(b)-transport))
	}
	slowChecksums(b)
	binary.BigEndian.PutUint16(b[transport+int(v.CsumOffset):], slowSum(slowPseudo(b)))
	return b, v
}

func drawSuper(t *rapid.T) super {
	s := super{
		proto:        rapid.SampledFrom([]byte{protoTCP, protoUDP}).Draw(t, "proto"),
		options:      rapid.IntRange(0, 10).Draw(t, "options"),
		upperOptions: rapid.IntRange(0, 10).Draw(t, "TCP options"),
		flags:        rapid.Byte().Draw(t, "flags"),
		fragment:     rapid.SampledFrom([]uint16{0, dontFragment}).Draw(t, "DF"),
		size:         rapid.IntRange(1, 3000).Draw(t, "size"),
		id:           rapid.Uint16().Draw(t, "ID"),
		sequence:     rapid.Uint32().Draw(t, "sequence"),
	}
	s.payload = rapid.IntRange(1, min(70*s.size, maxPacket-120)).Draw(t, "payload")
	return s
}

// split returns all packets of a Splitter, each in one piece.
func split(t testing.TB, packet []byte, v Vnet) [][]byte {
	var s Splitter
	if reason := s.Start(packet, v); reason != Passed {
		t.Fatalf("Start: %s", reason)
	}
	var out [][]byte
	arena := make([]byte, MaxSegmentHeader)
	for seg, ok := s.Next(arena); ok; seg, ok = s.Next(arena) {
		out = append(out, append(append([]byte(nil), seg.Header...), seg.Payload...))
	}
	return out
}

func TestSplitProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSuper(rt)
		packet, v := s.build()
		want := slowSplit(packet, s.size)
		if d := diff(want, split(t, packet, v)); d != "" {
			rt.Errorf("%+v (-want +got):\n%s", s, d)
		}
	})
}

// TestSplitWholeProperty compares a completed checksum with one computed from
// scratch.
func TestSplitWholeProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSuper(rt)
		packet, v := s.build()
		v.GSOType, v.GSOSize = VnetGSONone, 0
		want := append([]byte(nil), packet...)
		slowChecksums(want)
		if got := split(t, packet, v); len(got) != 1 || !bytes.Equal(got[0], want) {
			rt.Errorf("%+v:\n got %x\nwant %x", s, got, want)
		}
	})
}

func TestSplitKeepsPayload(t *testing.T) {
	packet, v := super{proto: protoTCP, flags: tcpACK, size: 100, payload: 250}.build()
	var s Splitter
	s.Start(packet, v)
	arena, at := make([]byte, 1000), 40
	for seg, ok := s.Next(arena); ok; seg, ok = s.Next(arena) {
		arena = arena[len(seg.Header):]
		if &seg.Payload[0] != &packet[at] {
			t.Errorf("the payload at %d was copied", at)
		}
		at += len(seg.Payload)
	}
	if at != len(packet) {
		t.Errorf("handed out %d bytes of %d", at, len(packet))
	}
}

// TestSplitRefuses passes the headers of a hostile or broken device.
func TestSplitRefuses(t *testing.T) {
	tcp := super{proto: protoTCP, flags: tcpACK, size: 100, payload: 250}
	udp := super{proto: protoUDP, size: 100, payload: 250}
	for _, c := range []struct {
		what  string
		super super
		spoil func(ip []byte, v *Vnet)
	}{
		{"no size", tcp, func(_ []byte, v *Vnet) { v.GSOSize = 0 }},
		{"TCP that is UDP", tcp, func(_ []byte, v *Vnet) { v.GSOType = VnetGSOUDP }},
		{"UDP that is TCP", udp, func(_ []byte, v *Vnet) { v.GSOType = VnetGSOTCPv4 }},
		{"IPv6", tcp, func(_ []byte, v *Vnet) { v.GSOType = 4 }},
		{"UDP fragments", udp, func(_ []byte, v *Vnet) { v.GSOType = 3 }},
		{"UDP with ECN", udp, func(_ []byte, v *Vnet) { v.GSOType = VnetGSOUDP | VnetGSOECN }},
		{"ECN alone", tcp, func(_ []byte, v *Vnet) { v.GSOType = VnetGSOECN }},
		{"a fragment", tcp, func(ip []byte, _ *Vnet) { ip[6] |= 0x20 }},
		{"a later fragment", udp, func(ip []byte, _ *Vnet) { ip[7] = 1 }},
		{"TCP header of 16 bytes", tcp, func(ip []byte, _ *Vnet) { ip[32] = 0x40 }},
		{"TCP header and nothing", super{proto: protoTCP, size: 1}, func([]byte, *Vnet) {}},
		{"TCP header beyond the end", super{proto: protoTCP, size: 1, payload: 39},
			func(ip []byte, _ *Vnet) { ip[32] = 0xf0 }},
		{"UDP header and nothing", super{proto: protoUDP, size: 1}, func([]byte, *Vnet) {}},
		{"no checksum at the start", tcp, func(_ []byte, v *Vnet) { v.GSOType, v.CsumStart = 0, 19 }},
		{"checksum beyond the end", tcp, func(ip []byte, v *Vnet) { v.GSOType, v.CsumOffset = 0, uint16(len(ip)-20-1) }},
		{"checksum far away", tcp,
			func(_ []byte, v *Vnet) { *v = Vnet{Flags: v.Flags, CsumStart: 1<<16 - 1, CsumOffset: 1<<16 - 1} }},
	} {
		t.Run(c.what, func(t *testing.T) {
			packet, v := c.super.build()
			c.spoil(packet, &v)
			was := append([]byte(nil), packet...)
			var s Splitter
			if got := s.Start(packet, v); got != BadOffload {
				t.Errorf("got %s", got)
			}
			if seg, ok := s.Next(make([]byte, MaxSegmentHeader)); ok {
				t.Errorf("still hands out %v", seg)
			}
			if !bytes.Equal(packet, was) {
				t.Errorf("changed the packet")
			}
		})
	}
}
