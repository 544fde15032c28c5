package firewall

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// TestHintFilter separates the changes by others that are a reason to look from
// those that are not.
func TestHintFilter(t *testing.T) {
	w := newWorld(t, variantNFT)
	for _, f := range cidr.Families {
		w.others(t, makings[0], f)
		w.apply(t, ops(dataplane.Create, append(wanted(t, dataplane.NFTables, f), wanted(t, dataplane.IPTables, f)...))...)
	}
	h, err := newHints(w.ns) // hears the same announcements as the driver's listener
	if err != nil {
		t.Fatal(err)
	}
	defer h.file.Close()
	for i, c := range []struct {
		does string
		want bool
	}{
		{"iptables -A KUBE-SERVICES -t nat -d 10.96.0.1 -j RETURN", false},
		{"iptables -t nat -N KUBE-SEP-1", false},
		{"iptables -A OUTPUT -j ACCEPT", false},
		{"nft add chain inet firewalld more", false},
		{"nft add rule inet firewalld filter_FORWARD drop", false},
		{"iptables -A FORWARD -j ACCEPT", true},
		{"iptables -A INPUT -j ACCEPT", true},
		{"ip6tables -t nat -I POSTROUTING -j ACCEPT", true},
		{"iptables -P FORWARD DROP", true},
		{"ip6tables -D FLANNEL-FWD 1", true},
		{"nft flush chain ip flannel-ipv4 forward", true},
		{"nft add rule ip6 flannel-ipv6 postrtg accept", true},
		{"nft add table inet another", true},
		{"nft 'add chain inet firewalld bar { type filter hook forward priority 0; policy drop; }'", true},
		{"nft delete table ip flannel-ipv4", true},
		{"nft flush ruleset", true},
	} {
		w.sh(t, c.does)
		if got := h.matters(t, w, fmt.Sprintf("fence-%d", i)); got != c.want {
			t.Errorf("%s: a reason to look: %v, want %v", c.does, got, c.want)
		}
	}
}

// matters makes a fence, reads all announcements up to it, and returns true if
// any of them matters.
func (h *hints) matters(t *testing.T, w *world, fence string) bool {
	t.Helper()
	w.sh(t, "nft add table bridge "+fence)
	buf := make([]byte, nl.ReadSize)
	found := false
	for {
		n, err := h.file.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if isFence(buf[:n], fence) {
			return found
		}
		found = found || anyMatters(buf[:n])
	}
}

// isFence looks for the fence's table in an announcement.
func isFence(b []byte, fence string) bool {
	for _, value := range nl.Attrs(b[min(len(b), unix.NLMSG_HDRLEN+nfgenLen):]) {
		if nl.Text(value) == fence {
			return true
		}
	}
	return false
}

func TestHintsArrive(t *testing.T) {
	w := newWorld(t, variantNFT)
	w.apply(t, ops(dataplane.Create, wanted(t, dataplane.NFTables, cidr.V4))...)
	for _, does := range []string{"nft flush ruleset", "iptables -P FORWARD DROP"} {
		select {
		case <-w.f.Hints():
		default:
		}
		w.sh(t, does)
		select {
		case <-w.f.Hints():
		case <-time.After(10 * time.Second):
			t.Fatalf("no hint after %s", does)
		}
	}
}

func TestHintAfterOverflow(t *testing.T) {
	w := newWorld(t, variantNFT)
	h, err := newHints(w.ns)
	if err != nil {
		t.Fatal(err)
	}
	rules := ""
	for i := range 100 { // about a chain that does not matter: only the overflow can be a reason
		rules += fmt.Sprintf("add rule inet x y tcp dport %d accept;", i+1)
	}
	w.sh(t, "nft 'add table inet x; add chain inet x y'")
	if !h.matters(t, w, "drained") {
		t.Error("a new table is no reason to look")
	}
	raw, err := h.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.sh(t, "nft '"+rules+"'")
	}
	ctx, end := context.WithCancel(t.Context())
	h.end = end
	go h.listen(ctx)
	select {
	case <-h.out:
	case <-time.After(10 * time.Second):
		t.Error("no hint")
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}

// TestHintsAfterAFailedSocket lets the listening socket fail: another one takes its place.
func TestHintsAfterAFailedSocket(t *testing.T) {
	w := newWorld(t, variantNFT)
	h, err := newHints(w.ns)
	if err != nil {
		t.Fatal(err)
	}
	_ = h.file.Close()
	ctx, end := context.WithCancel(t.Context())
	h.end = end
	go h.listen(ctx)
	<-h.out // there is another socket, and something may have been missed
	w.sh(t, "nft add table inet another")
	select {
	case <-h.out:
	case <-time.After(10 * time.Second):
		t.Error("no hint after a new table")
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}
