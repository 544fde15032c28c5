package search

import "fmt"

// nodeFaults returns the faults of the node objects of Kubernetes.
func nodeFaults() []fault {
	all := []fault{
		one("node-deleted", "fault N node delete"),
		one("node-replaced", "fault N node replace"),
		one("pod-cidr-late", "fault N node late"),
		one("pod-cidr-changed", "fault N node move"),
		often(4, one("annotations-stripped", "fault N node strip")),
		one("annotations-garbled", "fault N node garble"),
		several("data-copied", at(0, "kill N"), at(0, "fault N node copy=P"), at(0, "start N")),
		one("heartbeat", "fault N node heartbeat"),
		several("gone-while-cut", at(0, "fault N cut"), at(0, "fault P node move"), at(0, "store compact"),
			at(0, "fault N cut heal")),
		several("deleted-while-stopped", at(0, "kill N"), at(0, "fault N node delete"), at(0, "start N")),
		onDevice(fault{name: "address-overwritten", weight: 2, draw: func(d *drawing) []Step {
			n := d.rng.IntN(d.top.nodes)
			address := fmt.Sprintf("192.168.64.%d", 200+n)
			if d.top.family == "v6" {
				address = fmt.Sprintf("fd00:64::%d", 200+n)
			}
			if n >= firstSegment(d.top) { // the address is one of the first segment
				n, address = 0, address[:len(address)-3]+"200"
			}
			return []Step{{Line: fmt.Sprintf("fault n%d node overwrite=%s", n+1, address)}}
		}}),
	}
	for i := range all {
		fits := all[i].fits
		all[i].fits = func(s shape) bool { return s.kube && (fits == nil || fits(s)) }
	}
	return all
}

// firstSegment returns the number of nodes on the first segment.
func firstSegment(s shape) int { return (s.nodes + s.segments - 1) / s.segments }

// notKube restricts faults to datastores with records of leases, which run out, and
// which any client may write under any key.
func notKube(faults []fault) []fault {
	for i := range faults {
		fits := faults[i].fits
		faults[i].fits = func(s shape) bool { return !s.kube && (fits == nil || fits(s)) }
	}
	return faults
}
