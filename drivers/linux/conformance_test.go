package linux

import (
	"net"
	"path"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestConformance records the suite's expectations: after adding a case, run it
// with -rewrite and read the kernel's answers.
func TestConformance(t *testing.T) {
	drivertest.Run(t, "../..", func(t *testing.T) drivertest.World {
		w := newWorld(t)
		if need, special := needs[path.Base(t.Name())]; special {
			need(t, w)
		}
		return w
	})
}

// needs maps each case that not every kernel can run to a function that skips it
// there.
var needs = map[string]func(testing.TB, *world){
	"proxy": func(t testing.TB, _ *world) { needTUN(t) },
	"tun":   func(t testing.TB, _ *world) { needTUN(t) },
	"ipip":  needIPIP,

	"rename": needRename,
	"rename-path": func(t testing.TB, w *world) {
		needTUN(t)
		needRename(t, w)
	},

	"wireguard":           needWireGuard,
	"wireguard-userspace": func(t testing.TB, _ *world) { needTUN(t) },
}

// needRename skips a test on a kernel before 6.2, where a renamed link loses what is on it.
func needRename(t testing.TB, w *world) {
	t.Helper()
	probe := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe", Flags: net.FlagUp}, VxlanId: 1}
	if err := w.host.LinkAdd(probe); err != nil {
		t.Fatal(err)
	}
	err := w.host.LinkSetName(probe, "probe2")
	if err := w.host.LinkDel(probe); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("this kernel renames no link that is up: ", err)
	}
}

// needWireGuard skips a test on a kernel without WireGuard.
func needWireGuard(t testing.TB, w *world) {
	t.Helper()
	if _, err := w.d.wg.inKernel(); err != nil {
		t.Skipf("this kernel has no WireGuard: %v", err)
	}
}

// needIPIP skips a test on a kernel without ipip.
func needIPIP(t testing.TB, w *world) {
	t.Helper()
	if err := hasIPIP(t, w); err != nil {
		t.Skipf("this kernel has no ipip: %v", err)
	}
}

// hasIPIP returns the kernel's refusal of an ipip tunnel, which no driver explains, or nil.
func hasIPIP(t testing.TB, w *world) error {
	t.Helper()
	probe := &netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, Remote: net.IPv4(192, 0, 2, 1)}
	if err := w.host.LinkAdd(probe); err != nil {
		return err
	}
	if err := w.host.LinkDel(probe); err != nil {
		t.Fatal(err)
	}
	return nil
}

// needTUN skips a test where it may not make TUN devices.
func needTUN(t testing.TB) {
	t.Helper()
	if err := linuxtest.TryTUN(); err != nil {
		t.Skipf("this user cannot make TUN devices here: %v", err)
	}
}
