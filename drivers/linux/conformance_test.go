package linux

import (
	"testing"

	"github.com/flanneld/flannel/core/driver/drivertest"
)

// TestConformance is where the suite's expectations are recorded: run it with
// -rewrite after adding a case, and read what the kernel said.
func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.World { return newWorld(t) })
}
