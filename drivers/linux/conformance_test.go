package linux

import (
	"path"
	"slices"
	"testing"

	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestConformance records the suite's expectations: after adding a case, run it
// with -rewrite and read the kernel's answers.
func TestConformance(t *testing.T) {
	drivertest.Run(t, "../..", func(t *testing.T) drivertest.World {
		if slices.Contains(withTUN, path.Base(t.Name())) {
			needTUN(t)
		}
		return newWorld(t)
	})
}

// withTUN names the cases that make TUN devices.
var withTUN = []string{"proxy", "tun"}

// needTUN skips a test where it may not make TUN devices.
func needTUN(t testing.TB) {
	t.Helper()
	if err := linuxtest.TryTUN(); err != nil {
		t.Skipf("this user cannot make TUN devices here: %v", err)
	}
}
