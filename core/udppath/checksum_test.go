package udppath

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

func TestSum(t *testing.T) {
	for _, c := range []struct {
		what, hex string
		want      uint16
	}{
		{"RFC 1071 section 3", "0001f203f4f5f6f7", 0xddf2},
		{"RFC 1071 section 3, by its last words", "f203f4f5f6f70001", 0xddf2},
		{"nothing", "", 0},
		{"an odd byte", "01", 0x0100},
		{"three bytes", "000102", 0x0201},
		{"all ones", "ffff", 0xffff},
		{"carry into itself", "ffffffff0001", 0x0001},
		{"a header, with its checksum", "45000073000040004011b861c0a80001c0a800c7", 0xffff},
		{"the same without", "450000730000400040110000c0a80001c0a800c7", 0x479e},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		if got := Sum(b); got != c.want {
			t.Errorf("%s: got %04x, want %04x", c.what, got, c.want)
		}
		if got := headerSum(b); len(b)%4 == 0 && got != c.want {
			t.Errorf("%s as a header: got %04x, want %04x", c.what, got, c.want)
		}
	}
}

// TestSumLengths tries every length up to a few rounds of the loop, with bytes
// that carry as often as possible.
func TestSumLengths(t *testing.T) {
	b := bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0x80}, 40)
	for n := range b {
		if got, want := Sum(b[:n]), slowSum(b[:n]); got != want {
			t.Fatalf("%d bytes: got %04x, want %04x", n, got, want)
		}
	}
}

func TestSumProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "bytes")
		if got, want := Sum(b), slowSum(b); got != want {
			t.Errorf("got %04x, want %04x", got, want)
		}
	})
}

// Both ways to a sum agree, wherever the bytes begin.
func FuzzSum(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(bytes.Repeat([]byte{0xff}, 3*wideSum+7), uint8(1))
	f.Add(bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xfe}, 1500), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, skip uint8) {
		b = b[min(int(skip), len(b)):]
		want := slowSum(b)
		if got := Sum(b); got != want {
			t.Errorf("got %04x, want %04x", got, want)
		}
		defer func(has bool) { hasWideSum = has }(hasWideSum)
		hasWideSum = false
		if got := Sum(b); got != want {
			t.Errorf("without wide sums: got %04x, want %04x", got, want)
		}
	})
}

func TestFold(t *testing.T) {
	for s, want := range map[uint64]uint16{
		0: 0, 0xffff: 0xffff, 0x10000: 1, 0x1fffe: 0xffff, 0x1ffff: 1, 1<<64 - 1: 0xffff, 1 << 63: 1 << 15,
		0xffff_ffff_0000_0000: 0xffff, 0xffff_0000_ffff_0001: 1,
	} {
		if got := fold(s); got != want {
			t.Errorf("%x: got %04x, want %04x", s, got, want)
		}
	}
}

// TestLowerTTL changes every TTL and, by the ID, every checksum, among them the
// one that RFC 1141 got wrong and RFC 1624 is about.
func TestLowerTTL(t *testing.T) {
	ip := datagram("10.5.1.7", "10.5.2.9")
	for id := range 1 << 16 {
		binary.BigEndian.PutUint16(ip[4:], uint16(id))
		ip = set(8, byte(id%255+1))(ip)
		want := lowered(ip)
		lowerTTL(ip)
		if !bytes.Equal(ip[:20], want[:20]) {
			t.Fatalf("ID %04x: got %x, want %x", id, ip[:20], want[:20])
		}
	}
}
