package kernel_test

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/sim/simtest"
)

// TestDriverConforms runs the conformance cases that were recorded from Linux.
func TestDriverConforms(t *testing.T) {
	drivertest.Run(t, "../../..", func(t *testing.T) drivertest.World {
		if strings.Contains(t.Name(), "wireguard") {
			t.Skip("the simulator has no WireGuard yet")
		}
		return simtest.NewHost(1)
	})
}
