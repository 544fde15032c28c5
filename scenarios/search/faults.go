package search

import (
	"fmt"
	"time"
)

// fault is a way to break something, as directives of the scenario language:
// mostly one, or several that have the named effect only together.
type fault struct {
	name   string // stable: reports of coverage count by it
	weight int    // how often it is drawn, relative to others; extras and hostile writes are drawn evenly
	fits   func(shape) bool
	draw   func(*drawing) []Step
}

// faults is the vocabulary that schedules are drawn from.
func faults() []fault {
	var all []fault
	for _, some := range [][]fault{
		endings(), kernelFaults(), storeFaults(), notKube(leaseFaults()),
		processFaults(), networkFaults(), firewallFaults(), nodeFaults(), ikeFaults(), commandFaults(), cloudFaults(),
		notKube(configFaults()), workloads(),
	} {
		all = append(all, some...)
	}
	return all
}

// endings undo lasting faults. Without them most of a long schedule would happen
// to a world in which nothing works any more.
func endings() []fault {
	return []fault{
		often(4, one("healed", "heal")),
		often(2, one("store-started", "store start")),
		often(2, one("resumed", "resume N")),
	}
}

// one is a fault of a single directive, in which N stands for a node, P for
// another one, D for a device of the backend and G for a segment.
func one(name, line string) fault {
	return fault{name: name, weight: 2, draw: func(d *drawing) []Step { return []Step{{Line: d.fill(line)}} }}
}

// several is a fault of several directives about the same nodes.
func several(name string, steps ...Step) fault {
	return fault{name: name, weight: 2, draw: func(d *drawing) []Step { return d.fillAll(steps) }}
}

// at returns a step for several: a directive, and the time after the step before it.
func at(after time.Duration, line string) Step { return Step{After: after, Line: line} }

func often(weight int, f fault) fault {
	f.weight = weight
	return f
}

// onDevice is for backends that have one.
func onDevice(f fault) fault {
	f.fits = func(s shape) bool { return len(s.devices) > 0 }
	return f
}

// overNextHops is for daemons whose routes on a device may use next-hop objects.
func overNextHops(f fault) fault {
	f.fits = func(s shape) bool { return s.nextHops && len(s.devices) > 0 }
	return f
}

// onVXLAN is for the backend that has a device with a MAC.
func onVXLAN(f fault) fault {
	f.fits = isVXLAN
	return f
}

// onUDP is for the backend that needs a port for itself.
func onUDP(f fault) fault {
	f.fits = func(s shape) bool { return s.backend == "udp" }
	return f
}

// amongPeers is for topologies of more than one node.
func amongPeers(f fault) fault {
	f.fits = func(s shape) bool { return s.nodes > 1 }
	return f
}

// chance draws the probability of a fault that strikes at random: rarely to always.
func (d *drawing) chance() string {
	return fmt.Sprintf("%g", pick(d.rng, 0.05, 0.2, 0.5, 1))
}

// within draws one of some durations, in the form for a directive.
func (d *drawing) within(from ...time.Duration) string { return pick(d.rng, from...).String() }
