package udppath

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var (
	nodeA = netip.MustParseAddr("192.168.64.1")
	nodeB = netip.MustParseAddr("192.168.64.2")
	nodeC = netip.MustParseAddr("192.168.64.3")
)

// tableA is the table of node A: A has 10.5.1.0/24, B has 10.5.2.0/24, C has
// 10.5.3.0/24 and, within B's, 10.5.2.128/25.
func tableA(t testing.TB) *Table {
	table, err := NewTable(Local{netip.MustParseAddr("10.5.1.0"), netip.MustParsePrefix("10.5.1.0/24"), 1472},
		Peer{netip.MustParsePrefix("10.5.2.0/24"), nodeB},
		Peer{netip.MustParsePrefix("10.5.3.0/24"), nodeC},
		Peer{netip.MustParsePrefix("10.5.2.128/25"), nodeC})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// newPath returns a path that may send ICMP errors.
func newPath() *Path {
	p := &Path{}
	p.Tick(time.Unix(0, 0))
	return p
}

// edit changes a packet that a test begins with.
type edit func(ip []byte) []byte

// datagram returns a UDP packet from one address to another, valid in all its
// parts, changed as asked, and with the right header checksum after each change.
func datagram(from, to string, edits ...edit) []byte {
	b := make([]byte, minHeader+sizeUDP+12)
	b[0], b[8] = 0x45, 64
	b[9] = protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], 0x1234)
	copy(b[12:], netip.MustParseAddr(from).AsSlice())
	copy(b[16:], netip.MustParseAddr(to).AsSlice())
	binary.BigEndian.PutUint16(b[20:], 4000)
	binary.BigEndian.PutUint16(b[22:], 53)
	binary.BigEndian.PutUint16(b[24:], sizeUDP+12)
	copy(b[28:], "twelve bytes")
	slowChecksums(b)
	for _, e := range edits {
		b = e(b)
	}
	return b
}

// set writes bytes and corrects the header's checksum.
func set(at int, values ...byte) edit {
	return func(ip []byte) []byte {
		copy(ip[at:], values)
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^slowSum(ip[:min(len(ip), int(ip[0]&15)*4)]))
		return ip
	}
}

// raw writes bytes and corrects nothing.
func raw(at int, values ...byte) edit {
	return func(ip []byte) []byte { copy(ip[at:], values); return ip }
}

func trim(n int) edit { return func(ip []byte) []byte { return ip[:n] } }

func pad(n int) edit { return func(ip []byte) []byte { return append(ip, make([]byte, n)...) } }

// lowered returns the packet one hop later, computed the slow way.
func lowered(ip []byte) []byte { return set(8, ip[8]-1)(append([]byte(nil), ip...)) }

func TestSend(t *testing.T) {
	const a, b = "10.5.1.7", "10.5.2.9"
	for _, c := range []sendCase{
		{what: "to a peer", packet: datagram(a, b), action: Transmit, to: nodeB},
		{what: "by the longest prefix", packet: datagram(a, "10.5.2.129"), action: Transmit, to: nodeC},
		{what: "of the host", packet: datagram("10.5.1.0", "10.5.3.0"), action: Transmit, to: nodeC},
		{what: "padded", packet: datagram(a, b, pad(5)), action: Transmit, to: nodeB},
		{what: "with options", packet: datagram(a, b, set(0, 0x46)), action: Transmit, to: nodeB},
		{what: "a later fragment", packet: datagram(a, b, set(6, 0x00, 0x10)), action: Transmit, to: nodeB},
		{what: "nothing", packet: nil, reason: Truncated},
		{what: "19 bytes", packet: datagram(a, b, trim(19)), reason: Truncated},
		{what: "less than it says", packet: datagram(a, b, trim(39)), reason: Truncated},
		{what: "IPv6", packet: datagram(a, b, raw(0, 0x65)), reason: NotIPv4},
		{what: "one byte of IPv6", packet: []byte{0x60}, reason: NotIPv4},
		{what: "header of 16 bytes", packet: datagram(a, b, set(0, 0x44)), reason: BadHeader},
		{what: "header longer than the packet", packet: datagram(a, b, set(0, 0x4f)), reason: BadHeader},
		{what: "length less than the header", packet: datagram(a, b, set(2, 0, 19)), reason: BadHeader},
		{what: "wrong checksum", packet: datagram(a, b, raw(10, 1, 1)), reason: BadChecksum},
		{what: "TTL 2", packet: datagram(a, b, set(8, 2)), action: Transmit, to: nodeB},
		{what: "TTL 1", packet: datagram(a, b, set(8, 1)), action: Deliver, reason: TTL, error: []byte{11, 0}},
		{what: "TTL 0", packet: datagram(a, b, set(8, 0)), action: Deliver, reason: TTL, error: []byte{11, 0}},
		{what: "no peer", packet: datagram(a, "10.5.4.9"), action: Deliver, reason: NoRoute, error: []byte{3, 0}},
		{what: "own subnet", packet: datagram(a, "10.5.1.9"), action: Deliver, reason: NoRoute, error: []byte{3, 0}},
		{what: "no peer, first fragment", packet: datagram(a, "10.5.4.9", set(6, 0x20, 0)), action: Deliver, reason: NoRoute,
			error: []byte{3, 0}},
		{what: "no peer, later fragment", packet: datagram(a, "10.5.4.9", set(6, 0, 1)), reason: NoRoute},
		{what: "no peer, echo request", packet: datagram(a, "10.5.4.9", set(9, protoICMP), raw(20, 8)), action: Deliver,
			reason: NoRoute, error: []byte{3, 0}},
		{what: "no peer, ICMP error", packet: datagram(a, "10.5.4.9", set(9, protoICMP), raw(20, 3)), reason: NoRoute},
		{what: "no peer, ICMP of no type", packet: datagram(a, "10.5.4.9", set(9, protoICMP), set(2, 0, 20)),
			reason: NoRoute},
		{what: "to a group", packet: datagram(a, "224.0.0.1"), reason: NoRoute},
		{what: "to all", packet: datagram(a, "255.255.255.255"), reason: NoRoute},
		{what: "from 0.0.0.0", packet: datagram("0.0.0.0", "10.5.4.9"), reason: NoRoute},
		{what: "from loopback", packet: datagram("127.0.0.1", "10.5.4.9"), reason: NoRoute},
		{what: "1472 bytes", packet: datagram(a, b, pad(1472-40), set(2, 1472>>8, 1472&255)), action: Transmit, to: nodeB},
		{what: "1473 bytes", packet: datagram(a, b, pad(1473-40), set(2, 1473>>8, 1473&255)), reason: TooBig},
		{what: "1473 bytes, DF", packet: datagram(a, b, pad(1473-40), set(2, 1473>>8, 1473&255), set(6, 0x40, 0)),
			action: Deliver, reason: TooBig, error: []byte{3, 4}},
		{what: "a type that is not IPv4", packet: datagram(a, b), vnet: Vnet{GSOType: 4, GSOSize: 10}, reason: BadOffload},
		{what: "a size for another protocol", packet: datagram(a, b), vnet: Vnet{GSOType: VnetGSOTCPv4, GSOSize: 10},
			reason: BadOffload},
		{what: "a checksum in the header", packet: datagram(a, b),
			vnet: Vnet{Flags: VnetNeedsCsum, CsumStart: 19, CsumOffset: 6}, reason: BadOffload},
		{what: "a checksum behind the end", packet: datagram(a, b, pad(5)),
			vnet: Vnet{Flags: VnetNeedsCsum, CsumStart: 20, CsumOffset: 19}, reason: BadOffload},
		{what: "a checksum at the end", packet: datagram(a, b, pad(5)),
			vnet: Vnet{Flags: VnetNeedsCsum, CsumStart: 20, CsumOffset: 18}, action: Transmit, to: nodeB},
	} {
		t.Run(c.what, func(t *testing.T) { c.check(t) })
	}
}

// sendCase is a packet and what Send does with it.
type sendCase struct {
	what   string
	packet []byte
	vnet   Vnet
	action Action
	reason Reason
	to     netip.Addr
	error  []byte // type and code
}

func (c sendCase) check(t *testing.T) {
	was := append([]byte(nil), c.packet...)
	p := newPath()
	v := p.Send(tableA(t), c.packet, c.vnet)
	want := Verdict{Action: c.action, Reason: c.reason, To: c.to}
	if c.action == Transmit {
		want.Packet = lowered(was[:binary.BigEndian.Uint16(was[2:])])
	} else if d := cmp.Diff(was, c.packet); d != "" {
		t.Errorf("a packet that is not sent was changed (-want +got):\n%s", d)
	}
	if c.error != nil {
		want.Packet = slowError([]byte{10, 5, 1, 0}, 8, c.error, 1472, was)
	}
	checkVerdict(t, p, want, v)
}

func checkVerdict(t *testing.T, p *Path, want, got Verdict) {
	t.Helper()
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmpopts.EquateEmpty()); d != "" {
		t.Errorf("verdict (-want +got):\n%s", d)
	}
	var counters Counters
	counters[got.Reason] = 1
	if d := cmp.Diff(counters, p.Counters()); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
}

func TestReceive(t *testing.T) {
	const a, b = "10.5.1.7", "10.5.2.9"
	for _, c := range []struct {
		what   string
		from   netip.Addr
		packet []byte
		action Action
		reason Reason
		error  bool
	}{
		{what: "from its owner", from: nodeB, packet: datagram(b, a), action: Deliver},
		{what: "from the host", from: nodeB, packet: datagram("10.5.2.0", "10.5.1.0"), action: Deliver},
		{what: "from the owner of a part", from: nodeC, packet: datagram("10.5.2.200", a), action: Deliver},
		{what: "padded", from: nodeB, packet: datagram(b, a, pad(3)), action: Deliver},
		{what: "from another node", from: nodeC, packet: datagram(b, a), reason: Spoofed},
		{what: "from an unknown host", from: netip.MustParseAddr("192.168.64.9"), packet: datagram(b, a), reason: Spoofed},
		{what: "from the owner of the whole", from: nodeB, packet: datagram("10.5.2.200", a), reason: Spoofed},
		{what: "from the own subnet", from: nodeB, packet: datagram("10.5.1.8", a), reason: Spoofed},
		{what: "from the own subnet and host", from: nodeA, packet: datagram("10.5.1.8", a), reason: Spoofed},
		{what: "from no subnet", from: nodeB, packet: datagram("10.5.4.1", a), reason: Foreign},
		{what: "from the underlay", from: nodeB, packet: datagram("192.168.64.2", a), reason: Foreign},
		{what: "to another node", from: nodeB, packet: datagram(b, "10.5.3.1"), reason: NotOurs},
		{what: "to the world", from: nodeB, packet: datagram(b, "1.1.1.1"), reason: NotOurs},
		{what: "TTL 2", from: nodeB, packet: datagram(b, a, set(8, 2)), action: Deliver},
		{what: "TTL 1", from: nodeB, packet: datagram(b, a, set(8, 1)), action: Transmit, reason: TTL, error: true},
		{what: "TTL 0", from: nodeB, packet: datagram(b, a, set(8, 0)), action: Transmit, reason: TTL, error: true},
		{what: "TTL 1, later fragment", from: nodeB, packet: datagram(b, a, set(8, 1), set(6, 0, 9)), reason: TTL},
		{what: "TTL 1, spoofed", from: nodeC, packet: datagram(b, a, set(8, 1)), reason: Spoofed},
		{what: "nothing", from: nodeB, reason: Truncated},
		{what: "truncated", from: nodeB, packet: datagram(b, a, trim(30)), reason: Truncated},
		{what: "not IPv4", from: nodeB, packet: datagram(b, a, raw(0, 0x55)), reason: NotIPv4},
		{what: "no header", from: nodeB, packet: datagram(b, a, set(0, 0x43)), reason: BadHeader},
		{what: "wrong checksum", from: nodeB, packet: datagram(b, a, raw(10, 0, 0)), reason: BadChecksum},
	} {
		t.Run(c.what, func(t *testing.T) {
			was := append([]byte(nil), c.packet...)
			p := newPath()
			v := p.Receive(tableA(t), c.from, c.packet)
			want := Verdict{Action: c.action, Reason: c.reason}
			if c.action == Deliver {
				want.Packet = lowered(was[:binary.BigEndian.Uint16(was[2:])])
			}
			if c.error {
				want.To = c.from
				want.Packet = slowError([]byte{10, 5, 1, 0}, 64, []byte{11, 0}, 0, was)
			}
			checkVerdict(t, p, want, v)
		})
	}
}

// TestReceiveRemembersNoMoreThanTheFlow checks that what a path remembers of a flow holds for this table, sender and
// these addresses alone.
func TestReceiveRemembersNoMoreThanTheFlow(t *testing.T) {
	table, path := tableA(t), newPath()
	without := table.Without(netip.MustParsePrefix("10.5.2.0/24"))
	moved, err := table.With(Peer{netip.MustParsePrefix("10.5.2.0/24"), nodeC})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what             string
		table            *Table
		sender           netip.Addr
		source, receiver string
		want             Reason
	}{
		{"another sender", table, nodeC, "10.5.2.9", "10.5.1.7", Spoofed},
		{"another source", table, nodeB, "10.5.3.9", "10.5.1.7", Spoofed},
		{"a source outside", table, nodeB, "10.6.2.9", "10.5.1.7", Foreign},
		{"another destination", table, nodeB, "10.5.2.9", "10.5.4.7", NotOurs},
		{"a table without the peer", without, nodeB, "10.5.2.9", "10.5.1.7", Foreign},
		{"a table in which the peer moved", moved, nodeB, "10.5.2.9", "10.5.1.7", Spoofed},
	} {
		for range 2 {
			if got := path.Receive(table, nodeB, datagram("10.5.2.9", "10.5.1.7")); got.Action != Deliver {
				t.Fatalf("before %s: %+v", c.what, got)
			}
		}
		got := path.Receive(c.table, c.sender, datagram(c.source, c.receiver))
		if got.Action != Drop || got.Reason != c.want {
			t.Errorf("%s: got %v for reason %v, want a drop for %v", c.what, got.Action, got.Reason, c.want)
		}
	}
}

// TestRouteProperty compares, in both directions, with a search through all
// peers, after changes to the table.
func TestRouteProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		address := rapid.Custom(func(t *rapid.T) netip.Addr {
			// Few addresses, so that prefixes overlap and packets hit them.
			return netip.AddrFrom4([4]byte{10, 5, rapid.ByteRange(0, 3).Draw(t, "third"), rapid.Byte().Draw(t, "fourth")})
		})
		node := rapid.Custom(func(t *rapid.T) netip.Addr {
			return netip.AddrFrom4([4]byte{192, 168, 64, rapid.ByteRange(1, 4).Draw(t, "node")})
		})
		table, p := tableA(t), newPath()
		for range rapid.IntRange(0, 20).Draw(rt, "changes") {
			subnet := netip.PrefixFrom(address.Draw(rt, "subnet"), rapid.IntRange(8, 32).Draw(rt, "bits")).Masked()
			if rapid.Bool().Draw(rt, "remove") {
				table = table.Without(subnet)
			} else if next, err := table.With(Peer{subnet, node.Draw(rt, "owner")}); err != nil {
				rt.Fatal(err)
			} else {
				table = next
			}
		}
		from, to := address.Draw(rt, "from"), address.Draw(rt, "to")
		sender := node.Draw(rt, "sender")
		wantTo, reason := netip.Addr{}, NoRoute
		if owner, ok := slowRoute(table.Peers(), to); ok {
			wantTo, reason = owner, Passed
		}
		if got := p.Send(table, datagram(from.String(), to.String()), Vnet{}); got.Reason != reason || got.To != wantTo {
			rt.Errorf("Send: got %s to %s, want %s to %s", got.Reason, got.To, reason, wantTo)
		}
		own := table.Local().Subnet
		switch owner, ok := slowRoute(table.Peers(), from); {
		case own.Contains(from) || ok && owner != sender:
			reason = Spoofed
		case !ok:
			reason = Foreign
		case !own.Contains(to):
			reason = NotOurs
		default:
			reason = Passed
		}
		if got := p.Receive(table, sender, datagram(from.String(), to.String())); got.Reason != reason {
			rt.Errorf("Receive: got %s, want %s", got.Reason, reason)
		}
	})
}
