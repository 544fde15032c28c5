package search

import (
	"fmt"
	"time"
)

// workloads returns changes that last for a while, so that the nodes have to keep up
// with them.
func workloads() []fault {
	return []fault{
		notKube([]fault{{name: "records-never-rest", weight: 1, draw: (*drawing).restlessRecords}})[0],
		{name: "store-flapping", weight: 1, draw: func(d *drawing) []Step {
			var steps []Step
			for range 3 + d.rng.IntN(5) {
				steps = append(steps, at(d.second(), "store stop"), at(d.second(), "store start"))
			}
			return steps
		}},
		{name: "pods-come-and-go", weight: 1, draw: func(d *drawing) []Step {
			return []Step{{Line: d.fill("fault N churn every=") + d.within(100*time.Millisecond, time.Second, 10*time.Second) +
				" for=" + d.within(10*time.Second, 2*time.Minute)}}
		}},
		often(1, one("hint-storm", "fault N hints every=100ms for=2m")),
	}
}

// second draws a time of up to two seconds.
func (d *drawing) second() time.Duration {
	return time.Duration(d.rng.Int64N(int64(2 * time.Second))).Round(time.Millisecond)
}

// restlessRecords writes a peer's record again each second, each time with another
// address.
func (d *drawing) restlessRecords() []Step {
	published := fmt.Sprintf(`,"BackendType":%q`, d.top.backend)
	if d.top.backend == "udp" {
		published = "" // udp publishes no type
	}
	if d.top.backend == "vxlan" {
		published += `,"BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:98"}`
	}
	var steps []Step
	for i := range 5 + d.rng.IntN(20) {
		record := fmt.Sprintf(`{"PublicIP":"192.168.64.%d"%s}`, 98-i%3, published)
		steps = append(steps, Step{After: time.Second, Line: "store put subnets/10.5.251.0-24", Input: record})
	}
	return steps
}
