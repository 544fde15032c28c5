package tunnel

import (
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestAutoGoesOn chooses a tier while the kernel lacks a feature: auto uses the
// plain tier, and gso is refused.
func TestAutoGoesOn(t *testing.T) {
	host := linuxtest.HostOf(t)
	ns := host.Keep(t)
	p := dataplane.Proxy{Link: "flannel0", Local: netip.MustParseAddrPort("127.0.0.1:8285"), MTU: 1472}
	if err := ns.Do(func() error { return CreateDevice(p.Link) }); errors.Is(err, driver.ErrUnsupported) ||
		errors.Is(err, unix.EACCES) {
		t.Skipf("this user cannot make TUN devices here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	// Without the rule that finds local addresses, the message that tries
	// UDP_SEGMENT has no route.
	local := netlink.NewRule()
	local.Family, local.Table = unix.AF_INET, unix.RT_TABLE_LOCAL
	local.Priority = 0
	if err := host.RuleDel(local); err != nil {
		t.Fatal(err)
	}
	try := func(o dataplane.Offload) (c *carrier, err error) {
		p.Offload = o
		_ = ns.Do(func() error { c, err = choose(p); return nil })
		return c, err
	}
	const reason = "the kernel does not have UDP_SEGMENT (network is unreachable)"
	c, err := try(dataplane.OffloadAuto)
	if err != nil {
		t.Fatal(err)
	}
	if c.tier != Plain || c.reason != reason {
		t.Errorf("auto: tier %s, %q; want %s, %q", c.tier, c.reason, Plain, reason)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	_, err = try(dataplane.OffloadGSO)
	if want := "option Offload is gso: " + reason; !errors.Is(err, driver.ErrUnsupported) ||
		!strings.HasPrefix(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), "; choose auto or off") {
		t.Errorf("gso: error %v, want %q …", err, want)
	}
}

// TestWithoutDevice runs where no TUN device can be made, and expects errors
// that name the remedy.
func TestWithoutDevice(t *testing.T) {
	for _, c := range []struct {
		what  string
		hide  func() error
		class error
		want  string
	}{
		{"no device", hideDirectory, driver.ErrUnsupported,
			"open /dev/net/tun: no such file or directory: not supported by kernel: load the kernel's module tun, or give " +
				"the container this device"},
		{"no permission", forbidDevice, unix.EACCES,
			"open /dev/net/tun: permission denied: let this user read and write it, and the container have it among its " +
				"devices"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var made, opened error
			if err := elsewhere(c.hide, func() {
				made = CreateDevice("flannel0")
				_, opened = choose(dataplane.Proxy{Link: "lo", Local: netip.MustParseAddrPort("127.0.0.1:8285"),
					Offload: dataplane.OffloadAuto})
			}); err != nil {
				t.Skipf("this user cannot take %s away: %v", devicePath, err)
			}
			if !errors.Is(made, c.class) || made.Error() != c.want {
				t.Errorf("make: error %v, want %s", made, c.want)
			}
			if want := "open TUN device lo: " + c.want; !errors.Is(opened, c.class) || opened.Error() != want {
				t.Errorf("open: error %v, want %s", opened, want)
			}
		})
	}
}

// elsewhere runs do with mounts of its own, after a change of them, on a thread
// that ends afterwards.
func elsewhere(change func() error, do func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = change()
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	return <-done
}

func hideDirectory() error { return unix.Mount("none", "/dev/net", "tmpfs", 0, "") }

// forbidDevice forbids opening devices there, even to root.
func forbidDevice() error {
	return errors.Join(
		unix.Mount(devicePath, devicePath, "", unix.MS_BIND, ""),
		unix.Mount("", devicePath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NODEV, ""))
}
