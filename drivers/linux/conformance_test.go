package linux

import (
	"path"
	"slices"
	"testing"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestConformance is where the suite's expectations are recorded: run it with
// -rewrite after adding a case, and read what the kernel said.
func TestConformance(t *testing.T) {
	drivertest.Run(t, "../..", func(t *testing.T) drivertest.World {
		if slices.Contains(withTUN, path.Base(t.Name())) {
			needTUN(t)
		}
		return newWorld(t)
	})
}

// withTUN are the cases that make TUN devices.
var withTUN = []string{"proxy", "tun"}

// needTUN skips a test where it may not make TUN devices.
func needTUN(t testing.TB) {
	t.Helper()
	if err := linuxtest.TryTUN(); err != nil {
		t.Skipf("this user cannot make TUN devices here: %v", err)
	}
}
