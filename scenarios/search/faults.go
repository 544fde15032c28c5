package search

import "fmt"

// fault is a way to break something, as a directive of the scenario language.
type fault struct {
	name string
	fits func(shape) bool // nil: any topology
	draw func(*drawing) Step
}

// faults is the vocabulary that schedules are drawn from.
func faults() []fault {
	return []fault{
		onDevice("link-deleted", "link %s delete"),
		onDevice("link-down", "link %s down"),
		onDevice("link-down-up", "link %s down-up"),
		onDevice("mac-rewritten", "link %s mac"),
		onDevice("mtu-changed", "link %s mtu=1300"),
		onDevice("neigh-flushed", "flush neigh %s"),
		onDevice("fdb-flushed", "flush fdb %s"),
		onDevice("addr-flushed", "flush addr %s"),
		onDevice("routes-flushed", "flush routes %s"),
		onNode("uplink-bounced", "uplink down-up"),
		onNode("uplink-down", "uplink down"),
		onNode("cut-from-store", "cut"),
		onNode("isolated", "isolate"),
		plain("store-stopped", "store stop"),
		plain("store-started", "store start"),
		plain("compacted", "store compact"),
		plain("wiped", "store wipe"),
		record("lease-expired", "expire", ""),
		record("reserved", "reserve", ""),
		record("record-clobbered", "clobber", "}garbage{"),
		{name: "garbage-key", draw: func(d *drawing) Step {
			return Step{Line: fmt.Sprintf("store put subnets/garbage-%d", d.rng.IntN(100)), Input: "?"}
		}},
		{name: "paused", draw: func(d *drawing) Step { return Step{Line: "pause " + d.node()} }},
		{name: "resumed", draw: func(d *drawing) Step { return Step{Line: "resume " + d.node()} }},
		{name: "killed", draw: func(d *drawing) Step { return Step{Line: "kill " + d.node()} }},
		{name: "healed", draw: func(*drawing) Step { return Step{Line: "heal"} }},
	}
}

func plain(name, line string) fault {
	return fault{name: name, draw: func(*drawing) Step { return Step{Line: line} }}
}

func onNode(name, what string) fault {
	return fault{name: name, draw: func(d *drawing) Step {
		return Step{Line: fmt.Sprintf("fault %s %s", d.node(), what)}
	}}
}

func onDevice(name, format string) fault {
	return fault{
		name: name,
		fits: func(s shape) bool { return len(s.devices) > 0 },
		draw: func(d *drawing) Step {
			return Step{Line: fmt.Sprintf("fault %s "+format, d.node(), pick(d.rng, d.top.devices...))}
		},
	}
}

func record(name, verb, input string) fault {
	return fault{name: name, draw: func(d *drawing) Step {
		return Step{Line: fmt.Sprintf("store %s %s", verb, d.node()), Input: input}
	}}
}
