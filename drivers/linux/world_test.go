package linux

import (
	"testing"

	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/internal/wholedump"
)

// world is a network namespace for drivertest, with a driver in it.
type world struct {
	*linuxtest.Host
	d     *Driver
	host  *wholedump.Handle
	far   *wholedump.Handle
	farNS netns.NsHandle
}

func newWorld(t testing.TB) *world {
	t.Helper()
	h := linuxtest.HostOf(t)
	d, err := Open(t.Context(), h.NS, drivertest.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
	})
	return &world{Host: h, d: d, host: h.Handle, far: h.Far, farNS: h.FarNS}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// with returns the world with another driver in it.
func (w *world) with(d *Driver) *world {
	other := *w
	other.d = d
	return &other
}

// Driver implements [drivertest.World].
func (w *world) Driver() driver.Lane { return w.d }

// look returns the state that the driver reads.
func (w *world) look(t testing.TB, extent dataplane.Extent) *dataplane.State {
	t.Helper()
	seen, err := w.d.Look(t.Context(), extent)
	if err != nil {
		t.Fatal(err)
	}
	return seen.State
}
