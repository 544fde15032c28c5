package udppath

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestTiersAgree sends a large packet over messages, and the packets into which the
// kernel would cut it one by one, and expects the same datagrams. It then receives
// these joined and one by one, and expects the same packets.
func TestTiersAgree(t *testing.T) {
	there, back := tableA(t), tableB(t)
	joiner := NewJoiner(true)
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSuper(rt)
		s.size = min(s.size, 1472-MaxSegmentHeader)
		s.payload = min(s.payload, 70*s.size)
		whole, vnet := s.build()
		path := newPath()

		var plain [][]byte
		for _, p := range slowSplit(whole, s.size) {
			v := path.Send(there, p, Vnet{})
			if v.Action != Transmit || v.To != nodeB {
				rt.Fatalf("one by one: %+v", v)
			}
			plain = append(plain, v.Packet)
		}
		v := path.Send(there, whole, vnet)
		if v.Action != Transmit || v.To != nodeB {
			rt.Fatalf("whole: %+v", v)
		}
		if d := diff(plain, overMessages(split(t, v.Packet, vnet))); d != "" {
			rt.Errorf("on the wire (-plain +offload):\n%s", d)
		}

		var arrived, joined [][]byte
		for _, p := range plain {
			v := path.Receive(back, nodeA, p)
			if v.Action != Deliver {
				rt.Fatalf("received: %+v", v)
			}
			joined = append(joined, v.Packet)
			arrived = append(arrived, append([]byte(nil), v.Packet...))
		}
		if d := diffFlows(byFlow(arrived, nil), byFlow(join(t, joiner, joined))); d != "" {
			rt.Errorf("delivered (-plain +offload):\n%s", d)
		}
	})
}

// tableB is the table of node B.
func tableB(t testing.TB) *Table {
	a := tableA(t).Local()
	own := netip.MustParsePrefix("10.5.2.0/24")
	table, err := NewTable(Local{own.Addr(), own, a.MTU}, Peer{a.Subnet, nodeA})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// overMessages packs packets into messages, and cuts those as UDP_SEGMENT does.
func overMessages(packets [][]byte) (datagrams [][]byte) {
	var m Message
	var body []byte
	flush := func() {
		for len(body) > 0 {
			n := min(m.Size, len(body))
			datagrams, body = append(datagrams, body[:n:n]), body[n:]
		}
		m = Message{}
	}
	for _, p := range packets {
		if !m.Add(nodeB, len(p)) {
			flush()
			m.Add(nodeB, len(p))
		}
		body = append(body, p...)
	}
	flush()
	return datagrams
}
