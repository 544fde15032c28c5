package daemon

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/sim/store"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// TestDaemonsSurviveFaults runs clusters through random faults of all kinds,
// heals the world and checks that every cluster converges. SIM_SEEDS sets the
// number of clusters.
func TestDaemonsSurviveFaults(t *testing.T) {
	seeds := uint64(6)
	if n, err := strconv.ParseUint(os.Getenv("SIM_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, seed, 5, func(o *Options) { o.OneByOne = true; o.Respawn = time.Second })
			c.store.SetFaults(store.Faults{LoseRequest: 0.05, LoseAnswer: 0.05, Slow: 0.2, SlowBy: 8 * time.Second,
				WatchDelay: 500 * time.Millisecond, WatchLose: 0.05, WatchDuplicate: 0.05, WatchReorder: 0.05, WatchBreak: 0.02})
			c.Always("no two nodes", c.noOverlap())
			rng := c.Rand("test")
			for _, d := range c.daemons {
				c.After(world.UpTo(rng, 5*time.Second), "start", d.Start)
			}
			for range 60 {
				c.After(world.UpTo(rng, 10*time.Minute), "fault", func() { c.fault(t, rng.IntN(14), c.daemons[rng.IntN(5)]) })
			}
			c.Run(15 * time.Minute)
			c.store.SetFaults(store.Faults{})
			c.store.Start()
			must(t, c.store.Put("config", testConfig, 0))
			for _, d := range c.daemons {
				d.KillAtBoundary(0)
				d.Start()
				if d.Client() != nil {
					d.Client().Cut(false)
				}
			}
			c.check(t)
		})
	}
}

// fault injects one random fault.
func (c *cluster) fault(t testing.TB, what int, d *Daemon) {
	t.Helper()
	record := "subnets/" + d.Status().Subnet.String()
	_, exists := c.store.Get(record)
	switch {
	case what == 0:
		d.Kill()
		c.After(10*time.Second, "start", d.Start)
	case what == 1:
		d.Restart()
	case what == 2:
		d.Pause(90 * time.Second)
	case what == 3:
		d.Suspend(90 * time.Second)
	case what == 4:
		c.store.LoseLeader(20 * time.Second)
	case what == 5:
		c.store.Stop()
		c.After(40*time.Second, "store", c.store.Start)
	case what == 6:
		c.store.Compact()
	case what == 7 && d.Client() != nil:
		client := d.Client()
		client.Cut(true)
		c.After(2*time.Minute, "heal", func() { client.Cut(false) })
	case what == 8 && exists:
		_ = c.store.Delete(record) // fails while there is no leader
	case what == 9 && exists:
		_ = c.store.Revoke(record)
	case what == 10:
		_ = c.store.Wipe()
	case what == 11 && d.Client() != nil:
		d.Client().ExpireToken()
	case what == 12:
		d.KillAtBoundary(1 + c.Rand("test").IntN(20))
		c.After(30*time.Second, "start", d.Start)
	case what == 13:
		c.store.LoseData()
		c.putConfig()
	}
}

// putConfig writes the config, as an operator who tries until the write succeeds.
func (c *cluster) putConfig() {
	if c.store.Put("config", testConfig, 0) != nil {
		c.After(10*time.Second, "operator", c.putConfig)
	}
}

// overlapLimit is how long two nodes may both hold one subnet: a datastore that
// has lost a lease may grant the subnet again, and the former owner may not
// learn of it until it has to renew. Here that is the TTL and a lost stream.
const overlapLimit = 90 * time.Second

// noOverlap returns an invariant: two nodes that hold a lease, without a sign
// that puts it in doubt, do not have overlapping subnets for long.
func (c *cluster) noOverlap() func() error {
	since := map[[2]int]time.Time{}
	return func() error {
		statuses := make([]node.Status, len(c.daemons))
		for i, d := range c.daemons {
			statuses[i] = d.Status()
		}
		for i, a := range statuses {
			for j, b := range statuses[:i] {
				pair := [2]int{i, j}
				begun, overlapped := since[pair]
				switch {
				case !a.Ready || !b.Ready || !a.Subnet.Overlaps(b.Subnet):
					delete(since, pair)
				case !overlapped:
					since[pair] = c.Now()
				case c.Now().Sub(begun) > overlapLimit:
					return fmt.Errorf("%s and %s have both been ready with %s since %s", a.Uplink.IP, b.Uplink.IP, a.Subnet, begun)
				}
			}
		}
		return nil
	}
}
