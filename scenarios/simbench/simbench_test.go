package simbench

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDay runs 24 hours of a cluster on one core: renewals, a look at every
// host every half minute, and the joins, leaves and faults of such a day. Joins and
// leaves come in waves, like an autoscaler's; in a wave of one, each change alters
// the tables of all nodes by itself.
func BenchmarkDay(b *testing.B) {
	for _, d := range []day{
		{nodes: 100, changes: 20, wave: 1, faults: 50},
		{nodes: 300, changes: 60, wave: 1, faults: 50},
		{nodes: 1000, changes: 200, wave: 1, faults: 50},
	} {
		b.Run(fmt.Sprintf("nodes=%d/wave=%d", d.nodes, d.wave), func(b *testing.B) {
			oneCore(b)
			patientCollector(b)
			for b.Loop() {
				d.live(b)
			}
		})
	}
}

// day describes the 24 hours of a cluster.
type day struct {
	nodes   int
	changes int // joins and leaves, half of each
	wave    int // changes at one time
	faults  int
}

func (d day) live(b *testing.B) {
	c := newCluster(b, d.nodes)
	m := measure(c)
	for _, daemon := range c.daemons {
		daemon.Start()
	}
	c.settle()
	end := c.Now().Add(24 * time.Hour)
	for i := range d.changes / d.wave {
		at := time.Duration(c.rng.Int64N(int64(23 * time.Hour)))
		c.After(at, "wave", func() {
			for range d.wave {
				if i%2 == 0 {
					c.join().Start()
				} else {
					c.leave(c.daemons[c.rng.IntN(len(c.daemons))])
				}
			}
		})
	}
	for range d.faults {
		at := time.Duration(c.rng.Int64N(int64(23 * time.Hour)))
		c.After(at, "fault", func() {
			h := c.daemons[c.rng.IntN(len(c.daemons))].Host()
			c.must(faults[c.rng.IntN(len(faults))](h))
		})
	}
	c.Run(end.Sub(c.Now()))
	c.settle()
	c.verify()
	m.report(b, c)
}

// BenchmarkCold starts all nodes of a cluster at once, and ends when each has
// all others in its tables. Every node has tables of its own, so memory and time
// grow with the square of the nodes.
func BenchmarkCold(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			patientCollector(b)
			for b.Loop() {
				c := newCluster(b, nodes)
				m := measure(c)
				for _, daemon := range c.daemons {
					daemon.Start()
				}
				c.settle()
				c.verify()
				m.report(b, c)
			}
		})
	}
}
