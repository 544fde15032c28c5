package wireguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

// testQueue is a queue whose TUN device is one end of a socket pair that keeps
// messages apart; the test is the kernel at the other end.
func testQueue(t *testing.T) (q *queue, kernel int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	q, err = newQueue(pair[0], "test", 1420, 9000, true, &counts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Close(pair[1])
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q, pair[1]
}

// whole makes a packet as the kernel leaves it whole, with the sum of the pseudo
// header in place of the checksum.
func whole(v6, tcp bool, payload []byte) (packet []byte, csumStart int) {
	head := minIPv4
	if v6 {
		head = sizeIPv6
	}
	upper := sizeUDP
	proto := byte(protoUDP)
	if tcp {
		upper, proto = minTCP+12, protoTCP
	}
	b := make([]byte, head+upper, head+upper+len(payload))
	if v6 {
		copy(b, []byte{6 << 4, 0, 0, 0, 0, 0, proto, 64})
		for i := 8; i < sizeIPv6; i++ {
			b[i] = byte(i)
		}
	} else {
		copy(b, []byte{4<<4 | 5, 0, 0, 0, 0xff, 0xfe, 0, 0, 64, proto})
		copy(b[12:], []byte{10, 5, 1, 7, 10, 5, 2, 7})
	}
	copy(b[head:], []byte{0x12, 0x34, 0x56, 0x78})
	if tcp {
		copy(b[head+4:], []byte{0xff, 0xff, 0xff, 0x00})
		b[head+12] = byte(upper/4) << 4
		b[head+13] = 0x10 | tcpPSH | tcpFIN | tcpCWR
		for i := minTCP; i < upper; i++ {
			b[head+i] = byte(i)
		}
	}
	return append(b, payload...), head
}

// checked reports whether a packet's checksums are right, by plain sums.
func checked(packet []byte) bool {
	head := minIPv4
	addresses := packet[12:20]
	proto := packet[9]
	if packet[0]>>4 == 6 {
		head, proto = sizeIPv6, packet[6]
		addresses = packet[8:40]
	} else if plain(packet[:head]) != 0xffff || int(binary.BigEndian.Uint16(packet[2:])) != len(packet) {
		return false
	}
	if head == sizeIPv6 && int(binary.BigEndian.Uint16(packet[4:])) != len(packet)-sizeIPv6 {
		return false
	}
	pseudo := append(bytes.Clone(addresses), 0, proto)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(packet)-head))
	return plain(append(pseudo, packet[head:]...)) == 0xffff
}

func plain(b []byte) uint16 {
	var s uint64
	for i, c := range b {
		s += uint64(c) << (8 * (1 - i%2))
	}
	return fold(s)
}

// TestQueueCuts gives the queue packets that the kernel left whole, in sizes that
// it guesses right and wrong, and checks each piece.
func TestQueueCuts(t *testing.T) {
	q, kernel := testQueue(t)
	random := rand.New(rand.NewPCG(1, 2))
	bufs, sizes := make([][]byte, batch), make([]int, batch)
	for i := range bufs {
		bufs[i] = make([]byte, maxPacket)
	}
	const offset = 16
	for round := range 300 {
		v6, tcp := random.IntN(2) == 0, random.IntN(3) > 0
		size := []int{1368, 1368, 1348, 1400, 536, 100}[random.IntN(6)]
		payload := make([]byte, 1+random.IntN(min(64000, 120*size)))
		for i := range payload {
			payload[i] = byte(random.Uint32())
		}
		packet, start := whole(v6, tcp, payload)
		v := udppath.Vnet{
			Flags: udppath.VnetNeedsCsum, GSOType: udppath.VnetGSOUDP, GSOSize: uint16(size), CsumStart: uint16(start),
		}
		if tcp {
			v.GSOType = udppath.VnetGSOTCPv4
			if v6 {
				v.GSOType = gsoTCPv6
			}
		}
		var header [udppath.VnetSize]byte
		v.Put(&header)
		if _, err := unix.Write(kernel, append(header[:], packet...)); err != nil {
			t.Fatal(err)
		}
		var got []byte
		for at := 0; len(got) < len(payload); {
			n, err := q.Read(bufs, sizes, offset)
			if err != nil || n == 0 {
				t.Fatalf("round %d: read %d packets, %v", round, n, err)
			}
			for i := range n {
				one := bufs[i][offset : offset+sizes[i]]
				last := len(got)+len(one)-q.cut.size == len(payload)
				checkPiece(t, one, start, tcp, at, last)
				got = append(got, one[q.cut.size:]...)
				at++
			}
		}
		if !bytes.Equal(got, payload) {
			t.Fatalf("round %d: another payload", round)
		}
	}
}

func checkPiece(t *testing.T, packet []byte, start int, tcp bool, at int, last bool) {
	t.Helper()
	if !checked(packet) {
		t.Fatalf("packet %d: a checksum or length is wrong", at)
	}
	if packet[0]>>4 == 4 && binary.BigEndian.Uint16(packet[4:]) != uint16(0xfffe+at) {
		t.Errorf("packet %d has ID %x", at, packet[4:6])
	}
	if !tcp {
		return
	}
	flags := packet[start+13]
	if (flags&(tcpPSH|tcpFIN) != 0) != last || (flags&tcpCWR != 0) != (at == 0) {
		t.Errorf("packet %d, last %t, has flags %x", at, last, flags)
	}
}

// TestQueueSingles gives the queue packets that need no cut, more than one at a
// time, among them one larger than it guesses.
func TestQueueSingles(t *testing.T) {
	q, kernel := testQueue(t)
	bufs, sizes := make([][]byte, batch), make([]int, batch)
	for i := range bufs {
		bufs[i] = make([]byte, maxPacket)
	}
	var want [][]byte
	for _, size := range []int{0, 1, 1000, 1360, 8000, 30} {
		packet, start := whole(false, false, bytes.Repeat([]byte{7}, size))
		binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
		binary.BigEndian.PutUint16(packet[10:], ^plain(packet[:minIPv4]))
		binary.BigEndian.PutUint16(packet[start+4:], uint16(len(packet)-start))
		pseudo := binary.BigEndian.AppendUint16(append(bytes.Clone(packet[12:20]), 0, protoUDP), uint16(len(packet)-start))
		binary.BigEndian.PutUint16(packet[start+6:], plain(pseudo))
		want = append(want, packet)
		v := udppath.Vnet{Flags: udppath.VnetNeedsCsum, CsumStart: uint16(start), CsumOffset: 6}
		var header [udppath.VnetSize]byte
		v.Put(&header)
		if _, err := unix.Write(kernel, append(header[:], packet...)); err != nil {
			t.Fatal(err)
		}
	}
	n, err := q.Read(bufs, sizes, 16)
	if err != nil || n != len(want) {
		t.Fatalf("read %d packets, %v", n, err)
	}
	for i := range n {
		got := bufs[i][16 : 16+sizes[i]]
		if len(got) != len(want[i]) || !checked(got) || !bytes.Equal(got[28:], want[i][28:]) {
			t.Errorf("packet %d of %d bytes differs", i, len(got))
		}
	}
}

// TestQueueTakesGarbage reads bytes that are no packets.
func TestQueueTakesGarbage(t *testing.T) {
	q, kernel := testQueue(t)
	random := rand.New(rand.NewPCG(3, 4))
	bufs, sizes := make([][]byte, batch), make([]int, batch)
	for i := range bufs {
		bufs[i] = make([]byte, maxPacket)
	}
	good, _ := whole(false, false, nil)
	const rounds = 2000
	for range rounds {
		junk := make([]byte, 1+random.IntN(3000))
		for i := range junk {
			junk[i] = byte(random.Uint32())
		}
		junk[0], junk[min(1, len(junk)-1)] = byte(random.IntN(2)), byte(random.IntN(6))
		for _, b := range [][]byte{junk, append(make([]byte, udppath.VnetSize), good...)} {
			if _, err := unix.Write(kernel, b); err != nil {
				t.Fatal(err)
			}
		}
		for {
			n, err := q.Read(bufs, sizes, 16)
			if err != nil {
				t.Fatal(err)
			}
			if n > 0 && bytes.Equal(bufs[n-1][16:16+sizes[n-1]], good) {
				break
			}
		}
	}
	dropped := uint64(0)
	for _, why := range []count{truncated, badOffload, tooBig} {
		n := q.counts[why].Load()
		if why != tooBig && n == 0 {
			t.Errorf("nothing counts as %s", countNames[why])
		}
		dropped += n
	}
	if dropped > rounds {
		t.Errorf("%d drops for %d packets", dropped, rounds)
	}
}

func TestQueueCloses(t *testing.T) {
	q, _ := testQueue(t)
	done := make(chan error)
	go func() {
		_, err := q.Read([][]byte{make([]byte, maxPacket)}, []int{0}, 16)
		done <- err
	}()
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read ends with %v", err)
	}
	q.setMTU(1400)
}
