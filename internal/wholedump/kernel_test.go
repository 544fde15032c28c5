package wholedump_test

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/internal/wholedump"
)

func TestMain(m *testing.M) { linuxtest.Main(m) }

const (
	kept   = 1000 // addresses: more than fit into one part of the kernel's answer
	burst  = 20   // changes, few enough to end within the tries of a list
	rounds = 1000
	enough = 5 // interrupted lists of the library: a whole list met as many changes
)

// TestListWhileAddressesChange reads the addresses of a device while another one comes and goes,
// until a change has interrupted an answer that the library returned.
func TestListWhileAddressesChange(t *testing.T) {
	h, err := linuxtest.NewHost()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	other, err := wholedump.At(h.NS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	lo, err := h.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for i := range kept {
		if err := h.AddrAdd(lo, address(i)); err != nil {
			t.Fatal(err)
		}
	}

	list := func(h interface {
		AddrList(netlink.Link, int) ([]netlink.Addr, error)
	},
	) (int, error) {
		changed := make(chan error)
		go func() { changed <- change(other, lo) }()
		all, err := h.AddrList(lo, netlink.FAMILY_V4)
		if err := <-changed; err != nil {
			t.Fatal(err)
		}
		return len(all), err
	}
	library := h.Handle.Handle
	interrupted := 0
	for range rounds {
		n, err := list(h)
		if err != nil || n < kept {
			t.Fatalf("%d addresses, error %v; want at least %d", n, err, kept)
		}
		_, err = list(library)
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			interrupted++
		}
		if interrupted == enough {
			return
		}
	}
	t.Fatalf("changes interrupted %d of %d lists of the library, want %d", interrupted, rounds, enough)
}

// change adds and removes an address, burst times.
func change(h *wholedump.Handle, link netlink.Link) error {
	for range burst {
		if err := h.AddrAdd(link, address(kept)); err != nil {
			return err
		}
		if err := h.AddrDel(link, address(kept)); err != nil {
			return err
		}
	}
	return nil
}

// address returns one of the addresses of the device.
func address(i int) *netlink.Addr {
	ip := net.IPv4(10, 1, byte(i>>8), byte(i))
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)}}
}
