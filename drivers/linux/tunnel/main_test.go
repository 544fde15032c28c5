package tunnel_test

import (
	"runtime"
	"testing"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// TestMain lets as many threads run at once as if every tunnel were a process of
// its own, which outside of tests it is: two that keep their processors while
// they wait would else keep both of a small machine from the wire between them.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	linuxtest.Main(m)
}
