package search

import (
	"fmt"
	"time"
)

// storeFaults returns the faults of the datastore and of the path to it.
func storeFaults() []fault {
	return []fault{
		one("store-stopped", "store stop"),
		{name: "leader-lost", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: "store leaderless for=" + d.within(time.Second, 10*time.Second, time.Minute)}}
		}},
		one("compacted", "store compact"),
		notKube([]fault{several("compacted-past-watcher", at(0, "fault N cut"), at(0, "store expire P"),
			at(10*time.Second, "store compact"), at(0, "fault N cut heal"))})[0],
		notKube([]fault{often(1, one("wiped", "store wipe"))})[0],
		often(1, one("data-lost", "store lose-data")),
		notKube([]fault{several("restored-past-node", at(0, "store backup"), at(0, "store expire N"),
			at(5*time.Second, "fault N cut"), at(0, "store restore further=1000"), at(2*time.Second, "fault N cut heal"))})[0],
		{name: "answers-slow", weight: 2, draw: func(d *drawing) []Step {
			chance := d.chance()
			by := d.within(100*time.Millisecond, time.Second, 10*time.Second)
			return []Step{{Line: "store slow chance=" + chance + " by=" + by}}
		}},
		chancy("requests-lost", "store lossy requests=%s"),
		chancy("answers-lost", "store lossy answers=%s"),
		chancy("reads-stale", "store stale chance=%s"),
		{name: "events-delayed", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: "store events delay=" + d.within(100*time.Millisecond, 3*time.Second, 30*time.Second)}}
		}},
		chancy("events-lost", "store events lose=%s"),
		chancy("events-duplicated", "store events duplicate=%s"),
		chancy("events-reordered", "store events reorder=%s"),
		chancy("stream-broken", "store events break=%s"),
		fated("request-lost", "lost"),
		fated("applied-but-timed-out", "unanswered"),
		fated("applied-late", "late"),
		one("token-expired", "fault N token"),
		one("denied", "fault N denied"),
	}
}

// fated sets the fate of a node's next requests, which follow the loss of its
// record.
func fated(name, fate string) fault {
	return fault{name: name, weight: 1, draw: func(d *drawing) []Step {
		steps := []Step{at(0, fmt.Sprintf("fault N request %s count=%d", fate, 1+d.rng.IntN(3)))}
		if d.rng.IntN(2) == 0 {
			after := "store expire N"
			if d.top.kube {
				after = "fault N node strip"
			}
			steps = append(steps, at(0, after))
		}
		return d.fillAll(steps)
	}}
}

// oddRecords returns records that decode but are useless.
func oddRecords() []string {
	return []string{
		`{"PublicIP":"224.0.0.7","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"02:00:00:00:00:07"}}`,
		`{"PublicIP":"192.168.64.99","BackendType":"vxlan","BackendData":{"VNI":1,"VtepMAC":"01:00:00:00:00:07"}}`,
		`{"PublicIP":"192.168.64.99","BackendType":"vxlan","BackendData":"?"}`,
		`{"PublicIP":"192.168.64.99","BackendType":"vxlan"}`,
		`{"PublicIP":"0.0.0.0","BackendType":"host-gw","PublicIPv6":"ff02::1"}`,
		`{"PublicIP":"127.0.0.1","BackendType":"host-gw"}`,
		`{"PublicIP":"172.31.9.9","BackendType":"host-gw"}`,
	}
}

// leaseFaults returns the faults of records.
func leaseFaults() []fault {
	return []fault{
		one("lease-revoked", "store expire N"),
		expired("lease-expired-paused", "pause N", "resume N", false),
		expired("lease-expired-cut", "fault N cut", "fault N cut heal", false),
		expired("lease-expired-stopped", "kill N", "start N", false),
		expired("lease-expired-paused-taken", "pause N", "resume N", true),
		expired("lease-expired-cut-taken", "fault N cut", "fault N cut heal", true),
		expired("lease-expired-stopped-taken", "kill N", "start N", true),
		one("record-overwritten", "store take N"),
		one("reserved", "store reserve N"),
		{name: "unreserved", weight: 2, draw: func(d *drawing) []Step {
			back := "store unreserve N ttl=" + d.top.ttl.String()
			return d.fillAll([]Step{at(0, "store reserve N"), at(time.Duration(d.pause()), back)})
		}},
		{name: "record-garbled", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: d.fill("store clobber N"), Input: pick(d.rng, "}garbage{", "", `{"PublicIP":7}`)}}
		}},
		often(1, one("record-of-foreign-backend", "store take N backend=quantum")),
		{name: "garbage-key", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: fmt.Sprintf("store put subnets/garbage-%d", d.rng.IntN(100)), Input: "?"}}
		}},
		notKube([]fault{{name: "record-odd", weight: 2, draw: func(d *drawing) []Step {
			subnet := pick(d.rng, "10.5.250.0-24", "172.31.5.0-24")
			return []Step{{Line: "store put subnets/" + subnet, Input: pick(d.rng, oddRecords()...)}}
		}}})[0],
		// The first two nodes are always on one segment.
		amongPeers(fault{name: "address-doubled", weight: 1, draw: func(d *drawing) []Step {
			return []Step{{Line: pick(d.rng, "fault n1 uplink twin=n2", "fault n2 uplink twin=n1")}}
		}}),
	}
}

// canExpire is for leases that end within a time that is cheap to simulate.
func canExpire(s shape) bool { return s.ttl <= time.Hour }

// expired lets a lease run out by itself while its node can do nothing, and
// leaves the subnet free or gives it to a foreign host.
func expired(name, away, back string, taken bool) fault {
	return fault{name: name, weight: 1, fits: canExpire, draw: func(d *drawing) []Step {
		steps := []Step{at(0, "remember"), at(0, away)}
		if wait := d.pastTTL(); taken {
			steps = append(steps, at(wait, "store take N"), at(time.Second, back))
		} else {
			steps = append(steps, at(wait, back))
		}
		return d.fillAll(steps)
	}}
}
