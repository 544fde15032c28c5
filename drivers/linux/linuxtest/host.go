package linuxtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/internal/pace"
	"github.com/flanneld/flannel/internal/wholedump"
)

// Host is a network namespace with nothing on it but a loopback link that is up.
type Host struct {
	NS netns.NsHandle
	*wholedump.Handle
	// Far holds the other ends of the host's links: setting one down takes the
	// carrier of its link.
	FarNS netns.NsHandle
	Far   *wholedump.Handle
}

// NewHost makes a host. Its maker closes it.
func NewHost() (*Host, error) {
	h := &Host{NS: netns.None(), FarNS: netns.None()}
	var err error
	h.NS, err = newNamespace()
	if err == nil {
		h.FarNS, err = newNamespace()
	}
	if err == nil {
		h.Handle, err = wholedump.At(h.NS)
	}
	if err == nil {
		h.Far, err = wholedump.At(h.FarNS)
	}
	var lo netlink.Link
	if err == nil {
		lo, err = h.LinkByName("lo")
	}
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make host: %w", err), h.Close())
	}
	return h, nil
}

// HostOf makes a host that ends with the test.
func HostOf(t testing.TB) *Host {
	t.Helper()
	h, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close host: %v", err)
		}
	})
	return h
}

// Keep returns the host's namespace, which a test can enter until it ends.
func (h *Host) Keep(t testing.TB) namespace.Namespace {
	t.Helper()
	ns, err := namespace.Keep(h.NS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Errorf("close namespace: %v", err)
		}
	})
	return ns
}

// Close removes the host with all that is on it.
func (h *Host) Close() error {
	for _, handle := range []*wholedump.Handle{h.Handle, h.Far} {
		if handle != nil {
			handle.Close()
		}
	}
	return errors.Join(closeNS(h.NS), closeNS(h.FarNS))
}

// Do is the part of [drivertest.World] that needs no driver.
func (h *Host) Do(_ context.Context, a drivertest.Action) error {
	if err := h.do(a); err != nil {
		return err
	}
	return h.Settle()
}

// settleBound is the time that the kernel has to process a carrier: about a second.
const settleBound = 10 * time.Second

// Settle waits until the kernel has processed carriers that came and went, which
// it does in the background. Recent kernels do so at once when a program asks about
// the link.
func (h *Host) Settle() error {
	all, err := h.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range all {
		if err := h.settleLink(l.Attrs()); err != nil {
			return fmt.Errorf("wait for the carrier of link %s: %w", l.Attrs().Name, err)
		}
	}
	return nil
}

func (h *Host) settleLink(link *netlink.LinkAttrs) error {
	for end := time.Now().Add(pace.Scale(settleBound)); time.Now().Before(end); {
		l, err := h.LinkByIndex(link.Index)
		if err != nil {
			return err
		}
		// LOWER_UP is the carrier, RUNNING what the kernel has made of it.
		flags := l.Attrs().RawFlags
		if flags&unix.IFF_UP == 0 || (flags&unix.IFF_RUNNING != 0) == (flags&unix.IFF_LOWER_UP != 0) {
			return nil
		}
	}
	return context.DeadlineExceeded
}
