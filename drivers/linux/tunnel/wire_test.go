package tunnel_test

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// wire is an underlay whose ends are TUN devices: every packet between the two
// nodes passes through this process, which may lose, delay, answer or read it.
type wire struct {
	ends [2]*os.File

	mu   sync.Mutex
	pass func(from int, packet []byte) [][]byte // packets that leave at the other end
	done sync.WaitGroup
}

// newWired makes two nodes with a wire that passes everything.
func newWired(t testing.TB, mtu int) (a, b *node, w *wire) {
	t.Helper()
	a, b = newNode(t, 1, mtu), newNode(t, 2, mtu)
	w = &wire{}
	for i, n := range []*node{a, b} {
		w.ends[i] = n.openTUN(t, "eth0")
		l, err := n.LinkByName("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if err := n.LinkSetMTU(l, mtu); err != nil {
			t.Fatal(err)
		}
		n.uplink(t)
		if err := n.Settle(); err != nil { // let the kernel notice that the device has a carrier
			t.Fatal(err)
		}
	}
	for i := range w.ends {
		w.done.Go(func() { w.forward(i) })
	}
	t.Cleanup(w.close)
	return a, b, w
}

// openTUN opens a TUN device. The kernel makes it if it is not there.
func (n *node) openTUN(t testing.TB, name string) (f *os.File) {
	t.Helper()
	err := n.ns.Do(func() error {
		opened, _, err := linuxtest.OpenTUN(name)
		f = opened
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (w *wire) forward(i int) {
	b := make([]byte, 65536)
	for {
		n, err := w.ends[i].Read(b)
		if err != nil { // closed
			return
		}
		w.mu.Lock()
		out := [][]byte{b[:n]}
		if w.pass != nil {
			out = w.pass(i, b[:n])
		}
		w.mu.Unlock()
		for _, p := range out {
			w.put(1-i, p)
		}
	}
}

// put sends a packet out of an end, unless that end is closing.
func (w *wire) put(end int, packet []byte) { _, _ = w.ends[end].Write(packet) }

// set chooses what the wire does from now on.
func (w *wire) set(pass func(from int, packet []byte) [][]byte) {
	w.mu.Lock()
	w.pass = pass
	w.mu.Unlock()
}

func (w *wire) close() {
	for _, e := range w.ends {
		e.Close()
	}
	w.done.Wait()
}

// payload returns the payload of a datagram to the nodes' port, nil for others.
func payload(packet []byte) []byte {
	const headers = 28
	if len(packet) < headers || packet[0] != 0x45 || packet[9] != unix.IPPROTO_UDP ||
		int(packet[22])<<8|int(packet[23]) != port {
		return nil
	}
	return packet[headers:]
}
