package tunnel_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

// transfer sends that many bytes between two nodes, in both directions at once,
// and compares their checksums.
func transfer(t testing.TB, a, b *node, size int) error {
	t.Helper()
	l := b.listen(t)
	there := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = exchange(c, 2, 1, size)
		}
		there <- err
	}()
	return errors.Join(exchange(a.dial(t, l.Addr()), 1, 2, size), <-there)
}

// exchange sends the bytes of one seed and expects those of another.
func exchange(c net.Conn, out, in uint64, size int) error {
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(noise(out, size))
		if err == nil {
			err = c.(*net.TCPConn).CloseWrite()
		}
		sent <- err
	}()
	h := sha256.New()
	n, err := io.Copy(h, c)
	want := sha256.Sum256(noise(in, size))
	switch {
	case err == nil && n != int64(size):
		err = fmt.Errorf("got %d bytes of %d", n, size)
	case err == nil && !bytes.Equal(h.Sum(nil), want[:]):
		err = errors.New("the bytes received differ from those sent")
	}
	return errors.Join(err, <-sent)
}

func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// pairs runs a test for every pair of tiers.
func pairs(t *testing.T, test func(t *testing.T, tierA, tierB dataplane.Offload)) {
	for _, tierA := range tiers {
		for _, tierB := range tiers {
			t.Run(fmt.Sprintf("%s to %s", tierA, tierB), func(t *testing.T) { test(t, tierA, tierB) })
		}
	}
}

// mixed runs a test for every pair of tiers, and for each tier with a stand-in
// of upstream's daemon.
func mixed(t *testing.T, test func(t *testing.T, tierA, tierB dataplane.Offload)) {
	pairs(t, test)
	for _, tier := range tiers {
		t.Run(fmt.Sprintf("%s to %s", tier, upstream), func(t *testing.T) { test(t, tier, upstream) })
		t.Run(fmt.Sprintf("%s to %s", upstream, tier), func(t *testing.T) { test(t, upstream, tier) })
	}
}

func TestTransfer(t *testing.T) {
	mixed(t, func(t *testing.T, tierA, tierB dataplane.Offload) {
		a, b := newPair(t, 1500)
		carry(t, a, b, tierA, tierB)
		if err := transfer(t, a, b, 10<<20); err != nil {
			t.Error(err)
		}
	})
}

// TestTransferWithJumboFrames uses datagrams so large that a message holds only
// seven.
func TestTransferWithJumboFrames(t *testing.T) {
	mixed(t, func(t *testing.T, tierA, tierB dataplane.Offload) {
		a, b := newPair(t, 9000)
		carry(t, a, b, tierA, tierB)
		if err := transfer(t, a, b, 10<<20); err != nil {
			t.Error(err)
		}
	})
}

// TestTransferOverBadWire loses one packet in a hundred, and delivers one in ten
// after its successor.
func TestTransferOverBadWire(t *testing.T) {
	mixed(t, func(t *testing.T, tierA, tierB dataplane.Offload) {
		a, b, w := newWired(t, 1500)
		carry(t, a, b, tierA, tierB)
		var count [2]int
		var held [2][]byte
		w.set(func(from int, p []byte) [][]byte {
			count[from]++
			late := held[from]
			held[from] = nil
			switch {
			case count[from]%100 == 50:
				return [][]byte{late}
			case count[from]%10 == 0:
				held[from] = bytes.Clone(p)
				return [][]byte{late}
			}
			return [][]byte{p, late}
		})
		if err := transfer(t, a, b, 10<<20); err != nil {
			t.Error(err)
		}
	})
}

// TestStreamsWhilePeersComeAndGo sends eight streams while peers of other
// subnets, and of a part of the receiver's subnet, come and go.
func TestStreamsWhilePeersComeAndGo(t *testing.T) {
	mixed(t, func(t *testing.T, tierA, tierB dataplane.Offload) {
		a, b := newPair(t, 1500)
		carry(t, a, b, tierA, tierB)
		const streams = 8
		done := make(chan error, streams)
		for range streams {
			l, c := b.listen(t), make(chan net.Conn, 1)
			go func() {
				conn, err := l.Accept()
				c <- conn
				if err == nil {
					err = exchange(conn, 2, 1, 1<<20)
				}
				done <- err
			}()
			conn := a.dial(t, l.Addr())
			go func() { done <- exchange(conn, 1, 2, 1<<20) }()
			<-c
		}
		others := []*node{{i: 3}, {i: 4}, {i: 5}}
		for left := 2 * streams; left > 0; {
			for _, n := range []*node{a, b} {
				if n.foreign {
					continue
				}
				for _, o := range others {
					n.apply(t, dataplane.Create, n.peer(o))
				}
				n.apply(t, dataplane.Replace, n.peer(a), n.peer(b))
				n.apply(t, dataplane.Delete, n.peer(n))
				for _, o := range others {
					n.apply(t, dataplane.Delete, n.peer(o))
				}
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				left--
			default:
			}
		}
	})
}
