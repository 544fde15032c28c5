package search

import (
	"fmt"
	"time"
)

// kernelFaults returns the faults of a host's tables and its uplink.
func kernelFaults() []fault {
	return []fault{
		onDevice(one("link-deleted", "fault N link D delete")),
		onDevice(one("link-down", "fault N link D down")),
		onDevice(one("link-down-up", "fault N link D down-up")),
		onVXLAN(one("mac-rewritten", "fault N link D mac")), // the other devices have no MAC
		onDevice(fault{name: "mtu-changed", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: fmt.Sprintf("%s%d", d.fill("fault N link D mtu="), d.top.mtu-200)}}
		}}),
		onDevice(one("address-changed", "fault N link D address=10.5.255.7/32")),
		onDevice(one("neigh-flushed", "fault N flush neigh D")),
		onDevice(one("fdb-flushed", "fault N flush fdb D")),
		onDevice(one("addr-flushed", "fault N flush addr D")),
		onDevice(one("routes-flushed", "fault N flush routes D")),
		overNextHops(one("nexthops-flushed", "fault N flush nexthops D")),
		onDevice(often(1, one("ifindex-reused", "fault N index D"))),
		onUDP(several("port-taken", at(0, "fault N link D delete"), at(0, "fault N port 8285"))),
		onUDP(several("started-without-port", at(0, "stop N"), at(0, "fault N port 8285"), at(0, "start N"))),
		amongPeers(one("route-deleted", "fault N unroute P")),
		amongPeers(one("route-shadowed", "fault N shadow P")),
		one("uplink-bounced", "fault N uplink down-up"),
		one("uplink-down", "fault N uplink down"),
		one("forwarding-off", "fault N forwarding off"),
		{name: "uplink-readdressed", weight: 2, fits: canForget, draw: func(d *drawing) []Step {
			n := d.rng.IntN(d.top.nodes)
			return []Step{{Line: fmt.Sprintf("fault n%d uplink address=%s", n+1, d.address(n, 100+10*d.rng.IntN(3)+n))}}
		}},
		{name: "second-address", weight: 2, draw: func(d *drawing) []Step {
			n := d.rng.IntN(firstSegment(d.top))
			return []Step{{Line: fmt.Sprintf("fault n%d uplink vip=%s", n+1, d.address(n, 150))}}
		}},
		{name: "uplink-mtu-changed", weight: 1, draw: func(d *drawing) []Step {
			mtu := pick(d.rng, 1400, 1450, 1500)
			return []Step{{Line: d.fill("fault N uplink mtu=") + fmt.Sprint(mtu)}}
		}},
		one("carrier-lost", "fault N carrier off"),
		refused("ops-enobufs", "ENOBUFS"),
		refused("ops-ebusy", "EBUSY"),
		refused("ops-eexist", "EEXIST"),
		refused("ops-enoent", "ENOENT"),
		chancy("looks-refused", "fault N looks chance=%s"),
		chancy("hints-lost", "fault N hints chance=%s"),
	}
}

// canForget is for clusters with room for the record of a host that has changed its
// address and its memory: it keeps a subnet from all others until its TTL ends.
func canForget(s shape) bool { return !s.scarce || s.ttl < liveness }

// refused lets a kernel answer some ops with an error: the next few, or any by chance.
func refused(name, what string) fault {
	return fault{name: name, weight: 1, draw: func(d *drawing) []Step {
		how := fmt.Sprintf("next=%d", 1+d.rng.IntN(8))
		if d.rng.IntN(2) == 0 {
			how = "chance=" + d.chance()
		}
		return []Step{{Line: d.fill("fault N ops "+what+" ") + how}}
	}}
}

// chancy is a fault that strikes with a probability.
func chancy(name, format string) fault {
	return fault{name: name, weight: 1, draw: func(d *drawing) []Step {
		return []Step{{Line: fmt.Sprintf(d.fill(format), d.chance())}}
	}}
}

// boundaries is more than the number of effects of a node until it has come to rest.
const boundaries = 60

// processFaults returns the faults of a daemon, its files and its clock.
func processFaults() []fault {
	return []fault{
		one("paused", "pause N"),
		often(4, one("killed", "kill N")),
		{name: "killed-at-boundary", weight: 4, draw: func(d *drawing) []Step {
			kill := fmt.Sprintf("fault N kill boundary=%d", 1+d.rng.IntN(boundaries))
			return d.fillAll([]Step{at(0, "start N"), at(0, kill), at(20*time.Second, "start N")})
		}},
		{name: "paused-past-ttl", weight: 1, fits: canExpire, draw: func(d *drawing) []Step {
			return d.fillAll([]Step{at(0, "pause N"), at(d.pastTTL(), "resume N")})
		}},
		{name: "suspended", weight: 1, draw: func(d *drawing) []Step {
			length := d.within(time.Second, 10*time.Second, min(d.pastTTL(), time.Hour))
			return []Step{{Line: d.fill("fault N suspend for=") + length}}
		}},
		several("old-files", at(0, "fault N file state keep"), at(0, "fault N file subnet keep"),
			at(30*time.Second, "kill N"), at(0, "fault N file state old"), at(0, "fault N file subnet old"), at(0, "start N")),
		several("files-gone", at(0, "kill N"),
			at(0, "fault N file state gone"), at(0, "fault N file subnet gone"), at(0, "start N")),
		several("files-garbled", at(0, "kill N"),
			at(0, "fault N file state garbage"), at(0, "fault N file subnet garbage"), at(0, "start N")),
		several("subnet-file-torn", at(0, "kill N"),
			at(0, "fault N file subnet gone"), at(0, "fault N file subnet tear"), at(0, "start N")),
		several("state-file-torn", at(0, "fault N file state tear"), at(0, "restart N"), at(20*time.Second, "start N")),
		one("subnet-disk-full", "fault N file subnet full"),
		one("state-disk-full", "fault N file state full"),
		clockJumped("clock-ahead", "ahead"),
		clockJumped("clock-behind", "behind"),
		often(1, one("second-daemon", "fault N second start")),
	}
}

// clockJumped lets a node's next daemon start with a wrong clock.
func clockJumped(name, way string) fault {
	return fault{name: name, weight: 1, draw: func(d *drawing) []Step {
		by := d.within(time.Second, time.Minute, 10*time.Hour)
		return d.fillAll([]Step{at(0, "fault N clock "+way+"="+by), at(0, "restart N kill")})
	}}
}

// networkFaults returns the faults of wires, of segments, and of the paths over them.
func networkFaults() []fault {
	return []fault{
		one("cut-from-store", "fault N cut"),
		one("isolated", "fault N isolate"),
		amongPeers(one("parted", "fault N part P")),
		amongPeers(one("parted-one-way", "fault N part P one-way")),
		disturbed("wire-lossy", func(d *drawing) string { return "loss=" + d.chance() }),
		disturbed("wire-reordering", func(d *drawing) string { return "reorder=" + d.chance() }),
		withoutLoops(disturbed("wire-duplicating", func(d *drawing) string { return "duplicate=" + d.chance() })),
		disturbed("wire-slow", func(d *drawing) string {
			return "latency=" + d.within(10*time.Millisecond, 300*time.Millisecond) + " jitter=50ms"
		}),
		disturbed("mtu-black-hole", func(d *drawing) string { return fmt.Sprintf("mtu=%d", pick(d.rng, 100, 1200, 1400)) }),
	}
}

// withoutLoops is for backends whose packets never go in circles. A provider's table may lead to a host that
// sends its packets back to the router: with each turn a wire would double them.
func withoutLoops(f fault) fault {
	f.fits = func(s shape) bool { return !byRouter(s.backend) }
	return f
}

// disturbed does something to a node's wire, or to all of a segment.
func disturbed(name string, how func(*drawing) string) fault {
	return fault{name: name, weight: 1, draw: func(d *drawing) []Step {
		return []Step{{Line: d.fill("fault "+pick(d.rng, "N", "N", "G")+" wire ") + how(d)}}
	}}
}
