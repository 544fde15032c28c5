package udppath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// join returns the packets of a Joiner, each in one piece, and their vnet headers.
func join(t testing.TB, j *Joiner, packets [][]byte) (whole [][]byte, vnets []Vnet) {
	for _, p := range packets {
		j.Add(p)
	}
	for out, ok := j.Next(); ok; out, ok = j.Next() {
		b := bytes.Join(out.Pieces, nil)
		if err := checkJoined(b, out.Vnet); err != nil {
			t.Fatalf("%v\n%+v %x", err, out.Vnet, b)
		}
		whole, vnets = append(whole, b), append(vnets, out.Vnet)
	}
	return whole, vnets
}

// checkJoined checks the demands of the kernel on a packet that it must cut.
func checkJoined(b []byte, v Vnet) error {
	if v == (Vnet{}) {
		return nil
	}
	header, field := minHeader+sizeUDP, 26
	want := Vnet{Flags: VnetNeedsCsum, GSOType: VnetGSOUDP, CsumStart: 20, CsumOffset: 6}
	if b[9] == protoTCP {
		header, field = minHeader+int(b[32]>>4)*4, 36
		want.GSOType, want.CsumOffset = VnetGSOTCPv4, 16
	}
	want.HeaderLen, want.GSOSize = uint16(header), v.GSOSize
	switch {
	case v != want:
		return fmt.Errorf("vnet header, want %+v", want)
	case v.GSOSize == 0 || int(v.GSOSize) >= len(b)-header:
		return fmt.Errorf("a size of %d for %d bytes", v.GSOSize, len(b)-header)
	case len(b) > maxPacket || int(binary.BigEndian.Uint16(b[2:])) != len(b):
		return fmt.Errorf("%d bytes", len(b))
	case slowSum(b[:20]) != 0xffff:
		return fmt.Errorf("header checksum")
	case b[9] == protoUDP && int(binary.BigEndian.Uint16(b[24:])) != len(b)-20:
		return fmt.Errorf("UDP length")
	case b[9] == protoUDP && len(b)-header > 64*int(v.GSOSize):
		return fmt.Errorf("more than 64 datagrams")
	case binary.BigEndian.Uint16(b[field:]) != slowSum(slowPseudo(b)):
		return fmt.Errorf("pseudo header")
	}
	return nil
}

// stream returns the packets into which a sender cuts a large packet.
func stream(s super) [][]byte {
	packet, _ := s.build()
	return slowSplit(packet, s.size)
}

// rewrite writes a byte and corrects all checksums.
func rewrite(at int, value byte) edit {
	return func(ip []byte) []byte { ip[at] = value; slowChecksums(ip); return ip }
}

func TestJoin(t *testing.T) {
	tcp := super{proto: protoTCP, flags: tcpACK, upperOptions: 3, size: 100, payload: 450, sequence: 1<<32 - 150}
	closing, df := tcp, tcp
	udp := tcp
	closing.flags = tcpACK | tcpPSH | tcpFIN
	df.fragment = dontFragment
	udp.proto = protoUDP
	congested := tcp
	congested.flags = tcpACK | tcpCWR
	const data = minHeader + minTCP + 12
	for _, c := range []joinCase{
		{what: "all five", super: tcp, want: []int{450}},
		{what: "with FIN and PSH at the end", super: closing, want: []int{450}},
		{what: "CWR at the beginning", super: congested, want: []int{100, 350}},
		{what: "another TOS", super: tcp, edits: map[int]edit{2: rewrite(1, 4)}, want: []int{200, 100, 150}},
		{what: "congestion experienced", super: tcp, edits: map[int]edit{2: rewrite(1, 3)}, want: []int{200, 100, 150}},
		{what: "another ID", super: tcp, edits: map[int]edit{2: rewrite(4, 4)}, want: []int{200, 100, 150}},
		{what: "another ID with DF", super: df, edits: map[int]edit{2: rewrite(4, 4)}, want: []int{450}},
		{what: "DF on one", super: tcp, edits: map[int]edit{2: rewrite(6, 0x40)}, want: []int{200, 100, 150}},
		{what: "another TTL", super: tcp, edits: map[int]edit{2: rewrite(8, 9)}, want: []int{200, 100, 150}},
		{what: "another source", super: tcp, edits: map[int]edit{2: rewrite(15, 9)}, want: []int{200, 100, 150}},
		{what: "another destination", super: tcp, edits: map[int]edit{2: rewrite(19, 7)}, want: []int{200, 100, 150}},
		{what: "another port", super: tcp, edits: map[int]edit{2: rewrite(23, 7)}, want: []int{200, 100, 150}},
		{what: "a gap", super: tcp, edits: map[int]edit{2: rewrite(27, 7)}, want: []int{200, 100, 150}},
		{what: "another acknowledgement", super: tcp, edits: map[int]edit{2: rewrite(31, 7)}, want: []int{200, 100, 150}},
		{what: "a flag", super: tcp, edits: map[int]edit{2: rewrite(33, tcpACK|0x40)}, want: []int{200, 100, 150}},
		{what: "SYN", super: tcp, edits: map[int]edit{2: rewrite(33, tcpACK|tcpSYN)}, want: []int{200, 100, 150}},
		{what: "RST", super: tcp, edits: map[int]edit{2: rewrite(33, tcpACK|tcpRST)}, want: []int{200, 100, 150}},
		{what: "URG", super: tcp, edits: map[int]edit{2: rewrite(33, tcpACK|tcpURG)}, want: []int{200, 100, 150}},
		{what: "no ACK", super: tcp, edits: map[int]edit{2: rewrite(33, 0)}, want: []int{200, 100, 150}},
		{what: "PSH in the middle", super: tcp, edits: map[int]edit{2: rewrite(33, tcpACK|tcpPSH)}, want: []int{300, 150}},
		{what: "another window", super: tcp, edits: map[int]edit{2: rewrite(35, 1)}, want: []int{200, 100, 150}},
		{what: "urgent pointer", super: tcp, edits: map[int]edit{2: rewrite(39, 1)}, want: []int{200, 100, 150}},
		{what: "another option", super: tcp, edits: map[int]edit{2: rewrite(45, 1)}, want: []int{200, 100, 150}},
		{what: "corrupt", super: tcp, edits: map[int]edit{2: raw(data+50, 1)}, want: []int{200, 100, 150}},
		{what: "corrupt at the beginning", super: tcp, edits: map[int]edit{0: raw(data+50, 1)}, want: []int{100, 350}},
		{what: "corrupt at the end", super: tcp, edits: map[int]edit{4: raw(data+49, 1)}, want: []int{400, 50}},
		{what: "another protocol", super: tcp, edits: map[int]edit{2: set(9, 47)}, want: []int{200, 100, 150}},
		{what: "UDP", super: udp, want: []int{450}},
		{what: "UDP without the kernel's", super: udp, plain: true, want: []int{100, 100, 100, 100, 50}},
		{what: "UDP without a checksum", super: udp, edits: map[int]edit{2: raw(26, 0, 0)}, want: []int{200, 100, 150}},
		{what: "UDP with another length", super: udp, edits: map[int]edit{2: rewrite(25, 107)}, want: []int{200, 100, 150}},
		{what: "UDP corrupt", super: udp, edits: map[int]edit{3: raw(40, 0)}, want: []int{300, 100, 50}},
		{what: "UDP with another ID", super: udp, edits: map[int]edit{3: rewrite(4, 9)}, want: []int{300, 100, 50}},
		{what: "options of IPv4", super: super{proto: protoTCP, flags: tcpACK, options: 1, size: 100, payload: 200},
			want: []int{104, 104}},
		{what: "a longer one", super: super{proto: protoTCP, flags: tcpACK, size: 50, payload: 50}, want: []int{50}},
	} {
		t.Run(c.what, func(t *testing.T) { c.check(t) })
	}
}

// joinCase is a run of packets and the sizes of the packets joined from them.
type joinCase struct {
	what  string
	super super
	edits map[int]edit // of the five packets
	plain bool         // without UDP
	want  []int        // bytes of payload in each packet that comes out
}

func (c joinCase) check(t *testing.T) {
	packets := stream(c.super)
	for i, e := range c.edits {
		packets[i] = e(packets[i])
	}
	header := minHeader + sizeUDP
	if c.super.proto == protoTCP {
		header = minHeader + minTCP + 4*c.super.upperOptions
	}
	whole, _ := join(t, NewJoiner(!c.plain), packets)
	var got []int
	for _, b := range whole {
		got = append(got, len(b)-header)
	}
	if d := cmp.Diff(c.want, got); d != "" {
		t.Errorf("payloads (-want +got):\n%s", d)
	}
}

// key identifies the flow of a packet, within which the order is fixed.
func key(ip []byte) string {
	header := int(ip[0]&15) * 4
	ports := "?"
	if fragmentation(ip)&offsetMask == 0 && len(ip) >= header+4 {
		ports = string(ip[header : header+4])
	}
	return fmt.Sprintf("%x %x %x", ip[12:20], ip[9], ports)
}

// unID clears the ID of a packet that is never fragmented, which joining may change.
func unID(ip []byte) []byte {
	b := append([]byte(nil), ip...)
	if fragmentation(b) == dontFragment {
		set(4, 0, 0)(b)
	}
	return b
}

// drawTraffic draws packets of a few flows. Most are in order; some are repeated,
// corrupt, fragmented or odd.
func drawTraffic(t *rapid.T) [][]byte {
	var flows [][][]byte
	for range rapid.IntRange(1, 4).Draw(t, "flows") {
		s := drawSuper(t)
		s.flags = rapid.SampledFrom([]byte{tcpACK, tcpACK | tcpPSH, tcpACK | tcpFIN, tcpACK | 0x40, tcpACK | tcpCWR,
			s.flags}).Draw(t, "usual flags")
		s.options = rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "some options")
		s.size = min(s.size, 300)
		s.payload = min(s.payload, 20*s.size)
		packets := stream(s)
		port := rapid.ByteRange(0, 3).Draw(t, "port")
		for _, p := range packets {
			p[int(p[0]&15)*4] = port
			slowChecksums(p)
		}
		flows = append(flows, packets)
	}
	var out [][]byte
	for len(flows) > 0 {
		i := rapid.IntRange(0, len(flows)-1).Draw(t, "flow")
		n := rapid.IntRange(1, len(flows[i])).Draw(t, "burst")
		out = append(out, flows[i][:n]...)
		flows[i] = flows[i][n:]
		if len(flows[i]) == 0 {
			flows = append(flows[:i], flows[i+1:]...)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "faults") {
		i := rapid.IntRange(0, len(out)-1).Draw(t, "packet")
		b := append([]byte(nil), out[i]...)
		at := rapid.SampledFrom([]int{1, 4, 6, 7, 8, 20, 27, 31, 32, 33, 35, len(b) - 1}).Draw(t, "byte")
		b[min(at, len(b)-1)] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if rapid.Bool().Draw(t, "mend") {
			slowChecksums(b)
		} else {
			set(0)(b)
		}
		if rapid.Bool().Draw(t, "repeat") {
			out = append(out[:i+1], out[i:]...)
		}
		out[i] = b
	}
	return out
}

// TestJoinProperty cuts joined packets again, as the kernel does, and expects the
// packets that went in: byte for byte, and in order within each flow.
func TestJoinProperty(t *testing.T) {
	j := NewJoiner(true) // one for all batches: none may leave anything behind
	rapid.Check(t, func(rt *rapid.T) {
		packets := drawTraffic(rt)
		want := byFlow(packets, nil)
		whole, vnets := join(t, j, packets)
		if d := diffFlows(want, byFlow(whole, vnets)); d != "" {
			rt.Errorf("(-want +got):\n%s", d)
		}
	})
}

// byFlow returns the packets of each flow in order. It cuts those that the kernel is
// told to cut.
func byFlow(packets [][]byte, vnets []Vnet) map[string][][]byte {
	flows := map[string][][]byte{}
	for i, b := range packets {
		pieces := [][]byte{b}
		if vnets != nil && vnets[i].GSOType != VnetGSONone {
			pieces = slowSplit(b, int(vnets[i].GSOSize))
		}
		for _, p := range pieces {
			flows[key(p)] = append(flows[key(p)], unID(p))
		}
	}
	return flows
}

// diffFlows compares two results of byFlow.
func diffFlows(want, got map[string][][]byte) string {
	if maps.EqualFunc(want, got, func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }) {
		return ""
	}
	return cmp.Diff(want, got)
}

// TestJoinSplit goes the whole way: cut for the wire, joined on the other side.
func TestJoinSplit(t *testing.T) {
	for _, s := range []super{
		{proto: protoTCP, flags: tcpACK | tcpPSH, upperOptions: 3, size: 1420, payload: 45 * 1420},
		{proto: protoTCP, flags: tcpACK, size: 500, payload: 65495, fragment: dontFragment},
		{proto: protoTCP, flags: tcpACK | tcpFIN, size: 128, payload: 65000},
		{proto: protoUDP, size: 1000, payload: 63 * 1000},
		{proto: protoUDP, size: 9, payload: 9*63 + 1},
	} {
		packet, v := s.build()
		want := append([]byte(nil), packet...)
		whole, vnets := join(t, NewJoiner(true), split(t, packet, v))
		if d := diff([][]byte{want}, whole); d != "" {
			t.Errorf("%+v (-want +got):\n%s", s, d)
		}
		if d := cmp.Diff([]Vnet{v}, vnets, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%+v: vnet header (-want +got):\n%s", s, d)
		}
	}
}
