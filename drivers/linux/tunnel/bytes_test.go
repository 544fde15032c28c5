package tunnel_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// packets are the packets that the first node may send to the second from its
// own pods.
func packets() map[string][]byte {
	return map[string][]byte{
		"a header alone":      craft(253, 0, nil),
		"one byte":            craft(253, 1, nil),
		"the largest":         craft(unix.IPPROTO_UDP, 1452, nil),
		"the same size again": craft(unix.IPPROTO_UDP, 1452, func(b []byte) { b[5] = 77 }),
		"ICMP":                craft(unix.IPPROTO_ICMP, 64, func(b []byte) { b[20] = 8 }),
		"with DF":             craft(unix.IPPROTO_UDP, 100, func(b []byte) { b[6] = 0x40 }),
		"a first fragment":    craft(unix.IPPROTO_UDP, 800, func(b []byte) { b[6] = 0x20 }),
		"a later fragment":    craft(unix.IPPROTO_UDP, 800, func(b []byte) { b[7] = 100 }),
		"with options":        craft(unix.IPPROTO_UDP, 60, func(b []byte) { b[0] = 0x46; copy(b[20:], []byte{1, 1, 1, 0}) }),
		"with two hops left":  craft(unix.IPPROTO_UDP, 60, func(b []byte) { b[8] = 2 }),
		"marked":              craft(unix.IPPROTO_TCP, 60, func(b []byte) { b[1] = 0xb9 }),
	}
}

// craft makes a packet of a protocol and a payload size, with TTL 64 and an ID,
// applies a change, and computes the header's checksum.
func craft(proto byte, size int, change func([]byte)) []byte {
	b := append(make([]byte, 20), noise(uint64(size), size)...)
	b[0], b[8] = 0x45, 64
	b[9] = proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	b[4], b[5] = 0x12, byte(size)
	copy(b[12:], []byte{10, 5, 1, 0, 10, 5, 2, 9})
	if change != nil {
		change(b)
	}
	sumHeader(b)
	return b
}

// sumHeader writes the checksum of an IPv4 header.
func sumHeader(b []byte) {
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], checksum(b[:int(b[0]&15)*4]))
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum&0xffff)
}

// TestTiersEmitTheSame sends packets of all kinds in a row and reads the other
// end of the wire: the same packets arrive, one hop later, each in its own
// datagram.
func TestTiersEmitTheSame(t *testing.T) {
	var names []string
	for name := range packets() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, tier := range tiers {
		t.Run(string(tier), func(t *testing.T) {
			a, b, w := newWired(t, 1500)
			carry(t, a, b, tier, tier)
			out := w.intercept()
			raw := a.rawSocket(t)
			for _, name := range names {
				sent := packets()[name]
				if err := unix.Sendto(raw, sent, 0, &unix.SockaddrInet4{Addr: [4]byte(sent[16:20])}); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			for _, name := range names {
				want := packets()[name]
				want[8]--
				sumHeader(want)
				if d := cmp.Diff(want, <-out); d != "" {
					t.Errorf("%s (-want +got):\n%s", name, d)
				}
			}
		})
	}
}

// TestTiersCutTheSame sends one tier packets that the kernel has cut and the
// other the whole packet, and compares the datagrams except for the inner IDs,
// which the kernel draws, and the checksums over them.
func TestTiersCutTheSame(t *testing.T) {
	const size, count = 1000, 20
	var got [2][][]byte
	for i, tier := range tiers {
		a, b, w := newWired(t, 1500)
		carry(t, a, b, tier, tier)
		out := w.intercept()
		a.writeWhole(t, a.openAt(t, 4000), net.UDPAddrFromAddrPort(netip.AddrPortFrom(b.inner(), 4001)), size, count)
		for range count {
			inner := <-out
			if checksum(inner[:20]) != 0 {
				t.Errorf("tier %s: wrong checksum in header %x", tier, inner[:20])
			}
			clear(inner[4:6])
			clear(inner[10:12])
			got[i] = append(got[i], inner)
		}
	}
	if d := cmp.Diff(got[0], got[1]); d != "" {
		t.Errorf("(-%s +%s):\n%s", tiers[0], tiers[1], d)
	}
}

// intercept stops all packets on the wire, and returns the inner packets of the datagrams that
// the first node sends.
func (w *wire) intercept() <-chan []byte {
	out := make(chan []byte, 100)
	w.set(func(from int, p []byte) [][]byte {
		if inner := payload(p); from == 0 && inner != nil {
			out <- bytes.Clone(inner)
		}
		return nil
	})
	return out
}

// rawSocket sends packets as they are.
func (n *node) rawSocket(t testing.TB) (fd int) {
	t.Helper()
	err := n.ns.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
