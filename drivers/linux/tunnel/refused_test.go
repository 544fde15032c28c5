package tunnel_test

import (
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestRefusedWhileTrafficRuns makes the kernel refuse messages of several
// packets after it took some. Connections go on in single packets, the kernel
// refuses none of them, and the report says so. (TestFallback covers the end of
// that state.)
func TestRefusedWhileTrafficRuns(t *testing.T) {
	a, b := newPair(t, 1500)
	carry(t, a, b, dataplane.OffloadGSO, dataplane.OffloadGSO)
	l := b.listen(t)
	conn := a.dial(t, l.Addr())
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := transfer(t, a, b, 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		if r := n.observe(t).Running[device].Reason; strings.Contains(r, "single packets") {
			t.Errorf("before: %s", r)
		}
		if err := unix.SetsockoptInt(n.socket(t), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
			t.Fatal(err)
		}
	}
	const size = 10 << 20
	done := make(chan error, 2)
	go func() { done <- exchange(far, 2, 1, size) }()
	go func() { done <- exchange(conn, 1, 2, size) }()
	for _, n := range []*node{a, b} {
		n.awaitRunning(t, "single packets to the peer", func(r dataplane.Running) bool {
			return strings.HasSuffix(r.Reason,
				"; single packets to 1 of the peers, since the kernel refused messages of several: invalid argument")
		})
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Error(err)
	}
	for _, n := range []*node{a, b} {
		if r := n.observe(t).Running[device]; r.Tier != "gso" || r.Drops["socket_refused"] > 0 {
			t.Errorf("afterwards: %+v", r)
		}
	}
}

// socket finds the node's socket among this process' descriptors.
func (n *node) socket(t testing.TB) int {
	t.Helper()
	want := netip.AddrPortFrom(n.underlay(), port)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		at, err := unix.Getsockname(fd) // most descriptors are no sockets
		if at, ok := at.(*unix.SockaddrInet4); err == nil && ok &&
			netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)) == want {
			return fd
		}
	}
	t.Fatalf("no socket at %s", want)
	return -1
}
