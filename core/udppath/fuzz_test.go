package udppath

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// seeds are packets of all kinds, as they come from a TUN device.
func seeds(f *testing.F, add func(packet []byte, v Vnet)) {
	f.Helper()
	for _, s := range []super{
		{proto: protoTCP, flags: tcpACK, size: 100, payload: 250},
		{proto: protoTCP, flags: tcpACK | tcpPSH | tcpFIN | tcpCWR, options: 2, upperOptions: 3, size: 7, payload: 70},
		{proto: protoUDP, size: 12, payload: 40, fragment: dontFragment},
		{proto: protoUDP, options: 10, size: 1, payload: 1},
	} {
		packet, v := s.build()
		add(packet, v)
		add(packet, Vnet{Flags: VnetNeedsCsum, CsumStart: v.CsumStart, CsumOffset: v.CsumOffset})
		add(packet, Vnet{})
	}
	for _, packet := range [][]byte{
		nil, {0x45}, {0x60}, datagram("10.5.1.7", "10.5.2.9", set(8, 1)), datagram("10.5.1.7", "10.5.9.9"),
		datagram("10.5.1.7", "10.5.9.9", set(9, protoICMP), raw(20, 3)), datagram("10.5.1.7", "10.5.2.9", set(6, 0x20, 1)),
		datagram("10.5.1.7", "10.5.2.9", pad(1500), set(2, 6, 4), set(6, 0x40)),
	} {
		add(packet, Vnet{})
	}
}

// checkVerdictBytes checks the properties of the packet of any verdict.
func checkVerdictBytes(t *testing.T, v Verdict, was []byte) {
	t.Helper()
	switch {
	case (v.Action == Transmit) != v.To.IsValid():
		t.Fatalf("action %d to %s", v.Action, v.To)
	case v.Action == Drop:
		if v.Reason == Passed || v.Packet != nil {
			t.Fatalf("dropped: %+v", v)
		}
	case v.Reason == Passed:
		if want := lowered(was[:len(v.Packet)]); !bytes.Equal(v.Packet, want) {
			t.Fatalf("carries %x, want %x", v.Packet, want)
		}
	default:
		kind := v.Packet[20:22]
		mtu := int(binary.BigEndian.Uint16(v.Packet[26:]))
		if want := slowError([]byte{10, 5, 1, 0}, v.Packet[8], kind, mtu, was); !bytes.Equal(v.Packet, want) {
			t.Fatalf("answers %x, want %x", v.Packet, want)
		}
	}
}

// FuzzSend takes any bytes as the input from a TUN device, and follows the packet
// to the wire.
func FuzzSend(f *testing.F) {
	seeds(f, func(packet []byte, v Vnet) {
		var b [VnetSize]byte
		v.Put(&b)
		f.Add(append(b[:], packet...))
	})
	table := tableA(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < VnetSize || len(b) > 9000 {
			return
		}
		vnet := ParseVnet((*[VnetSize]byte)(b))
		b = b[VnetSize:]
		was := append([]byte(nil), b...)
		v := newPath().Send(table, b, vnet)
		checkVerdictBytes(t, v, was)
		if v.Action == Transmit && !checkSplit(t, v.Packet, vnet) {
			t.Fatal("passed, and cannot be cut")
		}
	})
}

// FuzzReceive takes any bytes as a datagram from any of the nodes.
func FuzzReceive(f *testing.F) {
	seeds(f, func(packet []byte, _ Vnet) {
		f.Add(byte(2), packet)
		if len(packet) >= minHeader {
			packet = append([]byte(nil), packet...)
			f.Add(byte(2), append(packet[:12:12], append([]byte{10, 5, 2, 9, 10, 5, 1, 7}, packet[20:]...)...))
		}
	})
	table := tableA(f)
	f.Fuzz(func(t *testing.T, host byte, b []byte) {
		was := append([]byte(nil), b...)
		from := netip.AddrFrom4([4]byte{192, 168, 64, host})
		v := newPath().Receive(table, from, b)
		checkVerdictBytes(t, v, was)
		if v.Action == Drop {
			return
		}
		if v.Action == Transmit && v.To != from {
			t.Fatalf("answers %s, not %s", v.To, from)
		}
		src := netip.AddrFrom4([4]byte(was[12:16]))
		if owner, _ := slowRoute(table.Peers(), src); owner != from ||
			!table.Local().Subnet.Contains(netip.AddrFrom4([4]byte(was[16:20]))) {
			t.Fatalf("accepts from %s a packet of %s", from, src)
		}
		j := NewJoiner(true)
		j.Add(v.Packet)
		if out, ok := j.Next(); !ok || len(out.Pieces) != 1 || out.Vnet != (Vnet{}) {
			t.Fatalf("joined one packet to %+v", out)
		}
	})
}

// fixHeader makes the fewest changes to bytes so that parse accepts them.
func fixHeader(b []byte) {
	header := min(max(5, int(b[0]&15)), len(b)/4)
	b[0] = byte(0x40 | header)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	set(0)(b)
}

// checkSplit compares a Splitter with the slow one, and returns false if it
// refused the packet.
func checkSplit(t *testing.T, packet []byte, v Vnet) bool {
	t.Helper()
	slow := append([]byte(nil), packet...)
	var s Splitter
	reason := s.Start(append([]byte(nil), packet...), v)
	if reason == BadOffload {
		return false
	}
	if reason != Passed {
		t.Fatalf("refused: %s", reason)
	}
	got := split(t, packet, v)
	var want [][]byte
	switch {
	case v.GSOType != VnetGSONone:
		want = slowSplit(slow, int(v.GSOSize))
	case v.Flags&VnetNeedsCsum == 0:
		want = [][]byte{slow}
	default:
		start, field := int(v.CsumStart), int(v.CsumStart)+int(v.CsumOffset)
		check := ^slowSum(slow[start:])
		if check == 0 && slow[9] == protoUDP {
			check = 0xffff
		}
		binary.BigEndian.PutUint16(slow[field:], check)
		want = [][]byte{slow}
	}
	if d := diff(want, got); d != "" {
		t.Fatalf("%+v (-want +got):\n%s", v, d)
	}
	return true
}

// FuzzSplit takes any bytes as a packet with a valid header and as its vnet header.
func FuzzSplit(f *testing.F) {
	seeds(f, func(packet []byte, v Vnet) {
		f.Add(packet, v.Flags, v.GSOType, v.GSOSize, v.CsumStart, v.CsumOffset)
	})
	f.Fuzz(func(t *testing.T, b []byte, flags, gso uint8, size, start, offset uint16) {
		if len(b) < minHeader || len(b) > 9000 {
			return
		}
		fixHeader(b)
		checkSplit(t, b, Vnet{Flags: flags, GSOType: gso, GSOSize: size, CsumStart: start, CsumOffset: offset})
	})
}

// FuzzJoin takes any bytes as packets with valid headers: a byte for the
// length, a byte that says whether the checksums are right, and the packet.
func FuzzJoin(f *testing.F) {
	var run []byte
	for _, s := range []super{
		{proto: protoTCP, flags: tcpACK, size: 10, payload: 30},
		{proto: protoTCP, flags: tcpACK | tcpFIN, size: 10, payload: 25, fragment: dontFragment},
		{proto: protoUDP, size: 10, payload: 35},
	} {
		for _, p := range stream(s) {
			run = append(append(run, byte(len(p)), 1), p...)
		}
		f.Add(append([]byte(nil), run...))
	}
	j := NewJoiner(true)
	f.Fuzz(func(t *testing.T, b []byte) {
		var packets [][]byte
		for len(b) >= 2 && len(b) >= 2+int(b[0]) && b[0] >= minHeader {
			size, mend := int(b[0]), b[1]&1 != 0
			packet := append([]byte(nil), b[2:2+size]...)
			b = b[2+size:]
			fixHeader(packet)
			header := int(packet[0]&15) * 4
			if mend && len(packet) >= header+minTCP {
				slowChecksums(packet)
			}
			packets = append(packets, packet)
		}
		want := byFlow(packets, nil)
		whole, vnets := join(t, j, packets)
		if d := diffFlows(want, byFlow(whole, vnets)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}
