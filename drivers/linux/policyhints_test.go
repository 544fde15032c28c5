package linux

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
	"github.com/flanneld/flannel/internal/wholedump"
)

// blocked is a policy of another program.
func blocked(t *testing.T, src, dst string) *netlink.XfrmPolicy {
	t.Helper()
	_, from, err := net.ParseCIDR(src)
	if err != nil {
		t.Fatal(err)
	}
	_, to, err := net.ParseCIDR(dst)
	if err != nil {
		t.Fatal(err)
	}
	return &netlink.XfrmPolicy{Dir: netlink.XFRM_DIR_OUT, Src: from, Dst: to, Action: netlink.XFRM_POLICY_BLOCK}
}

// policyWorld returns a host, and the handle by which another program changes its
// policies. It skips the test if the kernel has none.
func policyWorld(t *testing.T) (*world, *wholedump.Handle) {
	t.Helper()
	w := newWorld(t)
	var other *wholedump.Handle
	err := w.d.ns.Do(func() (err error) {
		other, err = wholedump.New(unix.NETLINK_XFRM)
		return err
	})
	if err != nil {
		t.Skipf("this kernel has no IPsec policies: %v", err)
	}
	t.Cleanup(other.Close)
	return w, other
}

var policyExtent = dataplane.Extent{Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}, Policies: true}

// Another program removes, adds or flushes policies: the driver hints after each.
func TestPolicyHintsArrive(t *testing.T) {
	w, other := policyWorld(t)
	w.look(t, policyExtent)
	p := blocked(t, "10.5.1.0/24", "10.5.2.0/24")
	for _, change := range []func() error{
		func() error { return other.XfrmPolicyAdd(p) },
		func() error { return other.XfrmPolicyUpdate(p) },
		func() error { return other.XfrmPolicyDel(p) },
		func() error { return other.XfrmPolicyAdd(p) },
		other.XfrmPolicyFlush,
	} {
		drain(w.d.hints.out)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		expectHint(t, w.d.hints)
	}
}

// Policies of other networks are no reason to look.
func TestPolicyHintFilter(t *testing.T) {
	w, other := policyWorld(t)
	h := &policyHints{}
	h.watch(policyExtent)
	if err := w.d.ns.Do(func() (err error) {
		h.file, err = nl.Listen(unix.NETLINK_XFRM, []int{xfrmPolicyGroup})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer h.file.Close()
	for _, c := range []struct {
		src, dst string
		want     bool
	}{
		{"10.5.1.0/24", "10.5.2.0/24", true},
		{"10.5.0.0/16", "10.5.0.0/16", true},
		{"10.6.1.0/24", "10.5.2.0/24", false},
		{"0.0.0.0/0", "0.0.0.0/0", false},
	} {
		p := blocked(t, c.src, c.dst)
		for _, change := range []func(*netlink.XfrmPolicy) error{other.XfrmPolicyAdd, other.XfrmPolicyDel} {
			if err := change(p); err != nil {
				t.Fatal(err)
			}
			if got := h.nextMatters(t); got != c.want {
				t.Errorf("%s to %s: a reason to look: %v, want %v", c.src, c.dst, got, c.want)
			}
		}
	}
}

// nextMatters reads one announcement, and reports whether it is a reason to look.
func (h *policyHints) nextMatters(t *testing.T) bool {
	t.Helper()
	buf := make([]byte, nl.ReadSize)
	n, err := h.file.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	for m := range nl.Messages(buf[:n]) {
		return h.matters(m)
	}
	t.Fatal("an announcement without a message")
	return false
}
