package wireguard

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestOneWorker checks that this version of the library processes handshakes in one goroutine, whatever
// the number of processors, and that all its goroutines end with a device.
func TestOneWorker(t *testing.T) {
	q, _ := testQueue(t)
	d, _ := start(q, newBind(limitOf(1420), q.counts))
	eventually(t, "all workers but one wait", func() bool {
		all, waiting := workers(t)
		return all == runtime.NumCPU() && waiting == all-1
	})
	d.Close()
	eventually(t, "no worker is left", func() bool {
		all, _ := workers(t)
		return all == 0
	})
}

// workers returns how many goroutines for handshakes there are, and how many of them wait in the logger.
func workers(t *testing.T) (all, waiting int) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for one := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(one, ".RoutineHandshake(") {
			all++
			if strings.Contains(one, ".oneWorker.") {
				waiting++
			}
		}
	}
	return all, waiting
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("not within the time: " + what)
		}
	}
}
