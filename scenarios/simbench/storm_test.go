package simbench

import (
	"testing"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// BenchmarkStorm has 40 nodes join a cluster of 20 within a second, and counts the looks and plans of each of the 20
// nodes in that time and the two seconds after it.
func BenchmarkStorm(b *testing.B) {
	const nodes, joining = 20, 40
	var looks, plans uint64
	for b.Loop() {
		c := newCluster(b, nodes)
		for _, d := range c.daemons {
			d.Start()
		}
		c.settle()
		c.Run(time.Minute)
		residents := c.daemons[:nodes:nodes]
		count := func() (looks, plans uint64) {
			for _, d := range residents {
				w := d.Status().Lanes[node.HostLane].Work
				for _, number := range w.Looks {
					looks += number
				}
				plans += w.Plans
			}
			return looks, plans
		}
		looksBefore, plansBefore := count()
		for range joining {
			d := c.join()
			c.After(time.Duration(c.rng.Int64N(int64(time.Second))), "join", d.Start)
		}
		c.Run(3 * time.Second)
		looksAfter, plansAfter := count()
		looks += looksAfter - looksBefore
		plans += plansAfter - plansBefore
		c.settle()
		c.verify()
	}
	b.ReportMetric(float64(looks)/float64(b.N)/nodes, "looks/node")
	b.ReportMetric(float64(plans)/float64(b.N)/nodes, "plans/node")
}
