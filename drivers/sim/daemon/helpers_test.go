package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

const testConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefix(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}

// look reads what the host holds of the overlay device.
func look(t testing.TB, h *kernel.Host) *dataplane.State {
	t.Helper()
	seen, err := h.Driver().Look(context.Background(), dataplane.Extent{Links: []string{"flannel.1"}})
	must(t, err)
	return seen.State
}

// await lets time pass until the probe is done.
func (c *cluster) await(t testing.TB, p *kernel.Probe) *kernel.Probe {
	t.Helper()
	if !c.RunUntil(p.Done, time.Minute) {
		t.Fatalf("%s: no end within a minute", p)
	}
	return p
}
