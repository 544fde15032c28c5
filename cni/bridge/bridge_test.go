package bridge

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/internal/wholedump"
)

// Clear takes the given addresses off a bridge without ports, and leaves the others.
func TestClear(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with its namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("needs a network namespace of its own: %v", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "docker0"
	br := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(br); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"172.17.0.1/16", "10.5.3.1/24"} {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(br, a); err != nil {
			t.Fatal(err)
		}
	}
	former := netip.MustParsePrefix("10.5.3.1/24")
	removed, err := Clear("docker0", func(p netip.Prefix) bool { return p == former })
	if err != nil || !slices.Equal(removed, []netip.Prefix{former}) {
		t.Errorf("removed %v, %v, want %v", removed, err, former)
	}
	addrs, err := wholedump.Here.AddrList(br, netlink.FAMILY_V4)
	if err != nil || len(addrs) != 1 || addrs[0].IPNet.String() != "172.17.0.1/16" {
		t.Errorf("the bridge has %v, %v, want 172.17.0.1/16", addrs, err)
	}
}
