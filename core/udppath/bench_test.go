package udppath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
)

// benchTable returns the table of a node among 5,000.
func benchTable(b *testing.B) *Table {
	var peers []Peer
	for i := range 5000 {
		var subnet, ip [4]byte
		binary.BigEndian.PutUint32(subnet[:], 10<<24|uint32(i+1)<<8)
		binary.BigEndian.PutUint32(ip[:], 192<<24|168<<16|uint32(i+1))
		peers = append(peers, Peer{netip.PrefixFrom(netip.AddrFrom4(subnet), 24), netip.AddrFrom4(ip)})
	}
	own := netip.MustParsePrefix("10.200.1.0/24")
	table, err := NewTable(Local{own.Addr(), own, 1472}, peers...)
	if err != nil {
		b.Fatal(err)
	}
	return table
}

func BenchmarkSend(b *testing.B) {
	table, path := benchTable(b), newPath()
	packet := datagram("10.200.1.7", "10.5.2.9")
	for b.Loop() {
		if path.Send(table, packet, Vnet{}).Action != Transmit {
			packet = set(8, 255)(packet)
		}
	}
}

func BenchmarkReceive(b *testing.B) {
	table, path := benchTable(b), newPath()
	packet := datagram("10.5.2.9", "10.200.1.7")
	from, _ := table.peers.Lookup(source(packet))
	for b.Loop() {
		if path.Receive(table, from, packet).Action != Deliver {
			packet = set(8, 255)(packet)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	for _, size := range []int{20, 64, 1420, 65000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			bytes := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				Sum(bytes)
			}
		})
	}
}

func BenchmarkSplit(b *testing.B) {
	packet, v := super{proto: protoTCP, flags: tcpACK, upperOptions: 3, size: 1420, payload: 45 * 1420}.build()
	arena := make([]byte, MaxSegmentHeader)
	b.SetBytes(int64(len(packet)))
	var s Splitter
	for b.Loop() {
		s.Start(packet, v)
		for _, ok := s.Next(arena); ok; _, ok = s.Next(arena) {
		}
	}
}

func BenchmarkJoin(b *testing.B) {
	for _, c := range []struct {
		what  string
		flows int
		super super
	}{
		{"one flow", 1, super{proto: protoTCP, flags: tcpACK, upperOptions: 3, size: 1420, payload: 45 * 1420}},
		{"eight flows", 8, super{proto: protoTCP, flags: tcpACK, upperOptions: 3, size: 1420, payload: 45 * 1420}},
		{"64 bytes of UDP", 1, super{proto: protoUDP, size: 64 - 28, payload: 64 * (64 - 28)}},
	} {
		b.Run(c.what, func(b *testing.B) {
			var packets [][]byte
			var firsts [][]byte
			total := 0
			for i, p := range stream(c.super) {
				for port := range c.flows {
					p := append([]byte(nil), p...)
					p[minHeader] = byte(port)
					slowChecksums(p)
					packets = append(packets, p)
					total += len(p)
					if i == 0 {
						firsts = append(firsts, append([]byte(nil), p...))
					}
				}
			}
			j := NewJoiner(true)
			b.SetBytes(int64(total))
			for b.Loop() {
				for i, p := range firsts {
					copy(packets[i], p)
				}
				for _, p := range packets {
					j.Add(p)
				}
				n := 0
				for _, ok := j.Next(); ok; _, ok = j.Next() {
					n++
				}
				if n != c.flows {
					b.Fatalf("%d packets came out", n)
				}
			}
		})
	}
}

func BenchmarkChangeTable(b *testing.B) {
	table := benchTable(b)
	peer := Peer{netip.MustParsePrefix("10.5.2.0/24"), nodeB}
	for b.Loop() {
		next, err := table.With(peer)
		if err != nil {
			b.Fatal(err)
		}
		table = next
	}
}
