package vm_test

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/harness/vm"
)

// TestNetworkReachesTheHost boots a machine whose device is the other end of a tap device in a
// namespace. That end refuses a connection, so it got a packet and answered.
func TestNetworkReachesTheHost(t *testing.T) {
	need(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may make a tap device")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("no TUN devices here: ", err)
	}
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	tap := newTap(t)
	ctx, cancel := context.WithTimeout(t.Context(), bootBound)
	defer cancel()
	m, err := vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: os.Getenv(programEnv),
		Networks: []vm.Network{{Tap: tap, MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	const script = "ip link show eth0 | grep 52:54:00:00:00:09 && ip link set eth0 up && " +
		"ip address add 192.0.2.2/24 dev eth0 && (bash -c ': >/dev/tcp/192.0.2.1/9' 2>&1 | grep refused)"
	if status, out, err := sh(t, m, script); status != 0 || err != nil {
		t.Errorf("status %d, error %v: %s", status, err, out)
	}
}

// newTap makes a tap device with the address 192.0.2.1 in a network namespace of its own, which ends with it.
func newTap(t *testing.T) *os.File {
	t.Helper()
	runtime.LockOSThread()
	own, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	space, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = space.Close() })
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap0"}, Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR, NonPersist: true, Queues: 1}
	if err := netlink.LinkAdd(tap); err != nil {
		t.Fatal(err)
	}
	addr, err := netlink.ParseAddr("192.0.2.1/24")
	if err == nil {
		err = netlink.AddrAdd(tap, addr)
	}
	if err == nil {
		err = netlink.LinkSetUp(tap)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Set(own); err != nil {
		t.Fatal(err) // the thread stays locked, and ends with the test
	}
	runtime.UnlockOSThread()
	t.Cleanup(func() { _ = tap.Fds[0].Close() })
	return tap.Fds[0]
}
