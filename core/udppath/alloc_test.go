package udppath

import (
	"testing"
	"time"
)

// TestNoAllocations counts the allocations of every part while it repeats its work.
func TestNoAllocations(t *testing.T) {
	table, path := tableA(t), newPath()
	now := time.Unix(0, 0)
	out, lost := datagram("10.5.1.7", "10.5.2.9"), datagram("10.5.1.7", "10.5.9.9")
	in := datagram("10.5.2.9", "10.5.1.7")
	whole, vnet := super{proto: protoTCP, flags: tcpACK, size: 1420, payload: 64000}.build()
	tcp := stream(super{proto: protoTCP, flags: tcpACK, size: 1420, payload: 64000})
	udp := stream(super{proto: protoUDP, size: 1000, payload: 60000})
	firstTCP, firstUDP := append([]byte(nil), tcp[0]...), append([]byte(nil), udp[0]...)
	arena := make([]byte, MaxSegmentHeader)
	var splitter Splitter
	joiner := NewJoiner(true)
	for _, c := range []struct {
		what string
		work func() bool
	}{
		{"Send", func() bool {
			out = set8(out)
			return path.Send(table, out, Vnet{}).Action == Transmit
		}},
		{"an error", func() bool {
			now = now.Add(time.Second)
			path.Tick(now)
			return path.Send(table, lost, Vnet{}).Action == Deliver
		}},
		{"Receive", func() bool {
			in = set8(in)
			return path.Receive(table, nodeB, in).Action == Deliver
		}},
		{"Split", func() bool {
			n := 0
			splitter.Start(whole, vnet)
			for _, ok := splitter.Next(arena); ok; _, ok = splitter.Next(arena) {
				n++
			}
			return n == 46
		}},
		{"Join", func() bool {
			copy(tcp[0], firstTCP)
			copy(udp[0], firstUDP)
			for i, p := range tcp {
				joiner.Add(p)
				joiner.Add(udp[i%len(udp)])
			}
			n := 0
			for _, ok := joiner.Next(); ok; _, ok = joiner.Next() {
				n++
			}
			return n == 2
		}},
	} {
		good := c.work()
		if n := testing.AllocsPerRun(100, func() { good = c.work() && good }); n != 0 || !good {
			t.Errorf("%s allocates %v times; did its work: %v", c.what, n, good)
		}
	}
}

// set8 gives a packet its TTL back.
func set8(ip []byte) []byte {
	for ip[8] != 64 {
		ip[8]++
		c := uint32(^(uint16(ip[10])<<8 | uint16(ip[11]))) + 0x100
		c = ^(c>>16 + c&0xffff)
		ip[10], ip[11] = byte(c>>8), byte(c)
	}
	return ip
}
