package wireguard

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
)

// TestBindCarries sends packets of changing sizes from one bind to another, which
// the kernel joins and splits on the way, over both families.
func TestBindCarries(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) { carries(t, netip.MustParseAddr(host)) })
	}
}

func carries(t *testing.T, host netip.Addr) {
	from, to := newBind(maxPacket, &counts{}), newBind(maxPacket, &counts{})
	_, sender := open(t, from)
	fns, port := open(t, to)
	fn := fns[0]
	if host.Is6() {
		if len(fns) < 2 {
			t.Skip("this host has no IPv6")
		}
		fn = fns[1]
	}
	ep, err := from.ParseEndpoint(netip.AddrPortFrom(host, port).String())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	bufs, sizes := make([][]byte, batch), make([]int, batch)
	eps := make([]conn.Endpoint, batch)
	for i := range bufs {
		bufs[i] = make([]byte, maxPacket)
	}
	for round := range 200 {
		sent := packets(random)
		if err := from.Send(sent, ep); err != nil {
			t.Fatal(err)
		}
		for len(sent) > 0 {
			n, err := fn(bufs, sizes, eps)
			if err != nil || n > len(sent) {
				t.Fatalf("round %d: %d packets, %v", round, n, err)
			}
			for i := range n {
				if !bytes.Equal(bufs[i][:sizes[i]], sent[i]) {
					t.Fatalf("round %d: a packet of %d bytes arrives as another of %d", round, len(sent[i]), sizes[i])
				}
				if want := netip.AddrPortFrom(host, sender).String(); eps[i].DstToString() != want {
					t.Fatalf("from %s, not %s", eps[i].DstToString(), want)
				}
			}
			sent = sent[n:]
		}
	}
}

// packets draws a burst: runs of one size, as of a stream, and single ones.
func packets(random *rand.Rand) [][]byte {
	var all [][]byte
	for n := 1 + random.IntN(batch); len(all) < n; {
		size := []int{1452, 1452, 1400, 96, 148, 9000, 1}[random.IntN(7)]
		for range 1 + random.IntN(60) {
			b := bytes.Repeat([]byte{byte(random.Uint32())}, size)
			all = append(all, b)
		}
	}
	return all[:min(len(all), batch)]
}

// open opens a bind on any port.
func open(t *testing.T, b *bind) ([]conn.ReceiveFunc, uint16) {
	t.Helper()
	fns, port, err := b.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return fns, port
}

func TestBindCloses(t *testing.T) {
	b := newBind(maxPacket, &counts{})
	fns, port := open(t, b)
	if _, _, err := b.Open(port); !errors.Is(err, conn.ErrBindAlreadyOpen) {
		t.Errorf("a second Open: %v", err)
	}
	done := make(chan error)
	for _, fn := range fns {
		go func() {
			_, err := fn([][]byte{make([]byte, maxPacket)}, []int{0}, make([]conn.Endpoint, 1))
			done <- err
		}()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for range fns {
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("receiving ends with %v", err)
		}
	}
	other := newBind(maxPacket, &counts{})
	if _, _, err := other.Open(port); err != nil {
		t.Errorf("the port is still taken: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// TestBindLimit sends packets that exceed the limit, alone and joined, between
// those that do not.
func TestBindLimit(t *testing.T) {
	from, to := newBind(maxPacket, &counts{}), newBind(1564, &counts{})
	open(t, from)
	fns, port := open(t, to)
	ep, err := from.ParseEndpoint(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		t.Fatal(err)
	}
	const end, room = 100, 1564
	sizes := []int{1565, room, 3000, 3000, 3000, 1452, 1452, 9000, end}
	for _, size := range sizes {
		if err := from.Send([][]byte{bytes.Repeat([]byte{1}, size)}, ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := from.Send([][]byte{make([]byte, 2000), make([]byte, 2000), make([]byte, end)}, ep); err != nil {
		t.Fatal(err)
	}
	if err := from.Send([][]byte{make([]byte, end)}, ep); err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, batch*room+maxPacket)
	bufs, got := make([][]byte, batch), make([]int, batch)
	for i := range bufs {
		bufs[i] = memory[i*room:][:maxPacket]
	}
	var all []int
	for count := 0; count < 2; {
		n, err := fns[0](bufs, got, make([]conn.Endpoint, batch))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got[:n]...)
		for _, size := range got[:n] {
			if size == end {
				count++
			}
		}
	}
	if want := []int{room, 1452, 1452, end, end}; !slices.Equal(all, want) {
		t.Errorf("packets of %d bytes, want %d", all, want)
	}
	if n := to.counts[tooBig].Load(); n != 8 { // with the short one behind the two of 2000
		t.Errorf("%d packets count as too big, want 8", n)
	}
}
