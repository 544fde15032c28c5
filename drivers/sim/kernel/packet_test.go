package kernel

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestChecksum computes the example of RFC 1071 section 3, an IPv4 header with
// its checksum in place, and odd lengths.
func TestChecksum(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want uint16
	}{
		{"0001f203f4f5f6f7", ^uint16(0xddf2)},
		{"", 0xffff},
		{"ff", 0x00ff},
		{"0001f2", ^uint16(0xf201)},
		{"45000073000040004011b861c0a80001c0a800c7", 0},
		{"450000730000400040110000c0a80001c0a800c7", 0xb861},
	} {
		b, err := hex.DecodeString(c.hex)
		must(t, err)
		if got := checksum(0, b); got != c.want {
			t.Errorf("checksum(%s) = %04x, want %04x", c.hex, got, c.want)
		}
	}
}

// Frames that Linux 6.18 sent from a vxlan link with VNI 7: an echo request of
// 8 bytes, over IPv4 and IPv6.
const (
	linux4 = "020000000002020000000001080045000056b30900004011b38b0a0000010a000002" +
		"ba5321180042ecf8" + "0800000000000700" + "0200000004020200000004010800" +
		"45000024a6ed400040017ddf0a0501010a050102" + "080057500f1900016162636465666768"
	linux6 = "02000000000202000000000186dd60000000005611" + "40" +
		"fd000000000000000000000000000001fd000000000000000000000000000002" +
		"ddb221180056e725" + "0800000000000700" + "02000000060202000000060186dd" +
		"6007df5e00103a40fd050000000000000000000000000001fd050000000000000000000000000002" +
		"8000e4f60f1900016162636465666768"
)

// TestLinuxFrames parses frames of Linux layer by layer, and builds the same
// bytes again: checksums, DF and defaults included.
func TestLinuxFrames(t *testing.T) {
	for _, text := range []string{linux4, linux6} {
		frame, err := hex.DecodeString(text)
		must(t, err)
		ether, packet, err := parseEther(frame)
		must(t, err)
		outer, datagram, err := parseIP(packet)
		must(t, err)
		udp, err := parseUDP(&outer, datagram)
		must(t, err)
		vni, inner, err := parseVXLAN(udp.body)
		must(t, err)
		if vni != 7 || udp.dst != defaultVXLANPort || outer.ttl != defaultTTL {
			t.Errorf("%s: vni %d, port %d, ttl %d", outer.family(), vni, udp.dst, outer.ttl)
		}
		again := etherFrame(ether.dst, ether.src,
			outer.packet((&udpDatagram{udp.src, udp.dst, vxlanFrame(vni, inner)}).payload(&outer)))
		if !bytes.Equal(again, frame) {
			t.Errorf("%s: put together:\n%x\nLinux has:\n%x", outer.family(), again, frame)
		}
		_, inside, err := parseEther(inner)
		must(t, err)
		h, payload, err := parseIP(inside)
		must(t, err)
		m, err := parseICMP(&h, payload)
		must(t, err)
		if m.kind != icmpEcho || m.id != 3865 || m.seq != 1 || string(m.body) != "abcdefgh" {
			t.Errorf("%s: inner message %+v", h.family(), m)
		}
	}
}

// linuxPing returns the packet in the tunnel of one of the frames.
func linuxPing(t testing.TB, frame string) []byte {
	t.Helper()
	b, err := hex.DecodeString(frame)
	must(t, err)
	header := etherLen + [...]int{20, 40}[b[14]>>4/6] + udpLen + vxlanLen + etherLen
	return b[header:]
}

func TestHeadersReadBack(t *testing.T) {
	a4, b4 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a6, b6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	for _, h := range []ipHeader{
		{src: a4, dst: b4, proto: protoUDP, ttl: 64, id: 7, size: 20},
		{src: a4, dst: b4, proto: protoICMP4, ttl: 1, id: 65535, df: true, size: 20},
		{src: a4, dst: b4, proto: protoUDP, ttl: 64, id: 9, offset: 1480, more: true, size: 20},
		{src: a6, dst: b6, proto: protoUDP, ttl: 64, df: true, size: 40},
		{src: a6, dst: b6, proto: protoICMP6, ttl: 64, id: 1 << 30, offset: 1448, df: true, size: 48},
		{src: a6, dst: b6, proto: protoICMP6, ttl: 64, id: 5, more: true, df: true, size: 48},
	} {
		got, payload, err := parseIP(h.packet([]byte("payload!")))
		if err != nil || got != h || string(payload) != "payload!" {
			t.Errorf("read back %+v %q %v, want %+v", got, payload, err, h)
		}
	}
}

func TestICMPReadsBack(t *testing.T) {
	for _, h := range []ipHeader{
		{src: netip.MustParseAddr("10.0.0.1"), dst: netip.MustParseAddr("10.0.0.2")},
		{src: netip.MustParseAddr("fd00::1"), dst: netip.MustParseAddr("fd00::2")},
	} {
		for _, m := range []icmpMessage{
			{kind: icmpEcho, id: 3, seq: 4, body: []byte("odd")},
			{kind: icmpEchoReply, id: 3, seq: 4, body: []byte("even")},
			{kind: icmpTooBig, mtu: 1400, body: []byte("quote")},
			{kind: icmpTimeExceeded, body: []byte("quote")},
			{kind: icmpNoPort, body: []byte("quote")},
		} {
			got, err := parseICMP(&h, m.payload(&h))
			if err != nil || got.kind != m.kind || got.id != m.id || got.seq != m.seq ||
				got.mtu != m.mtu || !bytes.Equal(got.body, m.body) {
				t.Errorf("%s: read back %+v %v, want %+v", h.family(), got, err, m)
			}
		}
	}
}

func TestVXLANReadsBack(t *testing.T) {
	vni, frame, err := parseVXLAN(vxlanFrame(maxVNI, []byte("frame")))
	if err != nil || vni != maxVNI || string(frame) != "frame" {
		t.Errorf("read back %d %q %v", vni, frame, err)
	}
	// RFC 7348 section 5: flags, 24 reserved bits, VNI, 8 reserved bits.
	if got := hex.EncodeToString(vxlanFrame(0x123456, nil)); got != "0800000012345600" {
		t.Errorf("header %s", got)
	}
	if _, _, err := parseVXLAN(make([]byte, 8)); !errors.Is(err, errVersion) {
		t.Errorf("header without a VNI: error %v", err)
	}
}

// TestBadPackets changes and truncates a good packet.
func TestBadPackets(t *testing.T) {
	good := linuxPing(t, linux4)
	for _, c := range []struct {
		name  string
		spoil func([]byte) []byte
		want  error
	}{
		{"nothing", func([]byte) []byte { return nil }, errShort},
		{"half a header", func(b []byte) []byte { return b[:19] }, errShort},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, errShort},
		{"version 5", func(b []byte) []byte { b[0] = 0x55; return b }, errVersion},
		{"header of 16 bytes", func(b []byte) []byte { b[0] = 0x44; return b }, errShort},
		{"bit flipped", func(b []byte) []byte { b[8] ^= 1; return b }, errChecksum},
	} {
		if _, _, err := parseIP(c.spoil(bytes.Clone(good))); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestFragmentsFitAndReassemble(t *testing.T) {
	v4a, v4b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	v6a, v6b := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	payload := make([]byte, 5001)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	for _, h := range []ipHeader{
		{src: v4a, dst: v4b, proto: protoUDP, ttl: 9, id: 77, size: 20},
		{src: v6a, dst: v6b, proto: protoUDP, ttl: 9, id: 77, size: 40},
	} {
		s := newStack(NewNetwork(world.New(1)), "h")
		parts := fragments(h, payload, 1300)
		if want := [...]int{4, 5}[h.family()]; len(parts) != want {
			t.Errorf("%s: %d fragments, want %d", h.family(), len(parts), want)
		}
		for i := range parts {
			part := parts[(i+2)%len(parts)] // out of order
			if len(part) > 1300 {
				t.Errorf("%s: fragment of %d bytes", h.family(), len(part))
			}
			got, body, err := parseIP(part)
			must(t, err)
			_, whole, done := s.reassemble(got, body, nil)
			if done != (i == len(parts)-1) || done && !bytes.Equal(whole, payload) {
				t.Errorf("%s: fragment %d: done %t, %d bytes", h.family(), i, done, len(whole))
			}
		}
		if len(s.parts) != 0 || s.world.Pending() != 0 {
			t.Errorf("%s: %d reassemblies, %d events left", h.family(), len(s.parts), s.world.Pending())
		}
	}
}

// FuzzReceive sends frames to a host with a tunnel: none may cause a panic, and
// a header that parses must read back.
func FuzzReceive(f *testing.F) {
	for _, text := range []string{linux4, linux6} {
		b := linuxPing(f, text)
		f.Add(b)
		f.Add(vxlanFrame(1, etherFrame(dataplane.MAC{2, 0, 0, 0, 4, 1}, dataplane.MAC{2, 0, 0, 0, 4, 2}, b)))
	}
	h4 := ipHeader{proto: protoUDP, ttl: 3}
	h4.src = netip.MustParseAddr("192.168.64.2")
	h4.dst = netip.MustParseAddr("192.168.64.1")
	f.Add(h4.packet((&udpDatagram{1, 8472, vxlanFrame(1, nil)}).payload(&h4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, payload, err := parseIP(b); err == nil {
			again, body, err := parseIP(h.packet(payload))
			again.size = h.size // the writer omits options and empty fragment headers
			if err != nil || again != h || !bytes.Equal(body, payload) {
				t.Fatalf("%+v read back as %+v, %v", h, again, err)
			}
		}
		l := overlay(t, 1, 2)
		n1 := l.hosts[0].stack
		eth0 := n1.link("eth0")
		eth0.receive(etherFrame(eth0.mac, dataplane.MAC{2}, b), nil)
		outer := ipHeader{src: h4.src, dst: h4.dst, proto: protoUDP, ttl: 3}
		n1.deliver(outer, (&udpDatagram{1, 8472, b}).payload(&outer), nil)
		l.Run(0)
	})
}
