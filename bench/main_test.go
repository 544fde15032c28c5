package bench

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/flanneld/flannel/harness"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(asServer); addr != "" {
		serveCluster(addr)
	}
	harness.Main(compared{m})
}

// compared prints the figures to compare with after the benchmarks.
type compared struct{ *testing.M }

// Run implements the interface of [harness.Main].
func (c compared) Run() int {
	status := c.M.Run()
	if flag.Lookup("test.bench").Value.String() != "" {
		fmt.Print(comparison)
	}
	return status
}

// comparison lists upstream's figures, measured on this kind of machine (2
// cores) with v0.28.9 and the same records, and our aims.
const comparison = `
For comparison (upstream: flannel v0.28.9 on the same kind of machine, 2 cores)
                                     upstream        aim
start, 5,000 vxlan peers             2.6 s           at most 0.65 s
  CPU time                           1.7 s           at most 0.43 s
  peak memory                        50 MB           at most 50 MB
  log                                4.6 MB          events, not peers
no-change pass over 5,000 peers      (makes none)    under 60 ms of CPU
40 daemons started at once           37 to 39 live   40 live
`
