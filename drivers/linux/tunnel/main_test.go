package tunnel_test

import (
	"runtime"
	"testing"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestMain lets as many threads run at once as if every tunnel were a process
// of its own, as it is outside tests. Otherwise two tunnels that keep their
// processors while they wait would, on a small machine, take both processors
// from the wire between them.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	linuxtest.Main(m)
}
