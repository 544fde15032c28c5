package search

import (
	"fmt"
	"time"
)

// cloudFaults returns the faults of a cloud provider and of the programs that change its tables.
func cloudFaults() []fault {
	all := []fault{
		often(3, one("cloud-route-removed", "fault cloud remove N")),
		often(3, one("cloud-route-taken", "fault cloud take N by=P")),
		one("cloud-route-led-away", "fault cloud take N by=vpn"),
		one("cloud-narrower-route", "fault cloud add 10.5.1.64/26"),
		often(1, one("cloud-foreign-route", "fault cloud add 10.5.200.0/24")),
		one("cloud-former-route", "fault cloud add 10.5.201.0/24 by=N"),
		one("cloud-default-route", "fault cloud add 0.0.0.0/0 by=N"),
		one("cloud-instance-ended", "fault cloud ended N"),
		one("cloud-denied", "fault cloud denied"),
		{name: "cloud-throttled", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: "fault cloud throttled chance=" + d.chance()}}
		}},
		{name: "cloud-slow", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: "fault cloud slow by=" + d.within(time.Second, 20*time.Second)}}
		}},
		{name: "cloud-stale", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: "fault cloud stale by=" + d.within(2*time.Second, 30*time.Second)}}
		}},
		{name: "cloud-quota", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: fmt.Sprintf("fault cloud quota most=%d", 1+d.rng.IntN(d.top.nodes+1))}}
		}},
	}
	for i := range all {
		all[i].fits = func(s shape) bool { return byRouter(s.backend) }
	}
	return all
}
