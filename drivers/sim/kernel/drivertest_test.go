package kernel_test

import (
	"testing"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/sim/simtest"
)

// TestDriverConforms runs the conformance cases that were recorded from Linux.
func TestDriverConforms(t *testing.T) {
	drivertest.Run(t, "../../..", func(*testing.T) drivertest.World { return simtest.NewHost(1) })
}
