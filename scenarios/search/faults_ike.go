package search

import "fmt"

// ikeFaults returns the faults of IPsec's IKE daemon, and of the kernel's tables for it.
func ikeFaults() []fault {
	all := []fault{
		one("ike-killed", "fault N ike killed"),
		one("ike-absent", "fault N ike absent"),
		one("ike-unloaded", "fault N ike unload=P"),
		one("ike-keyless", "fault N ike keyless=P"),
		{name: "policy-removed", weight: 2, draw: (*drawing).removedPolicy},
	}
	for i := range all {
		all[i].fits = func(s shape) bool { return s.backend == "ipsec" && s.nodes > 1 }
	}
	return all
}

// removedPolicy removes one of a node's policies. The address of the tunnel does not
// matter: direction and subnets identify the policy.
func (d *drawing) removedPolicy() []Step {
	own := 1 + d.rng.IntN(d.top.nodes)
	peer := 1 + (own+d.rng.IntN(d.top.nodes-1))%d.top.nodes
	return []Step{{Line: fmt.Sprintf("fault n%d remove", own), Input: pick(d.rng,
		"policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102",
		fmt.Sprintf("policy out 10.5.0.0/16 to <n%d>/24 allow priority 101", own),
		fmt.Sprintf("policy out <n%d>/24 to <n%d>/24 block priority 0", own, peer),
		fmt.Sprintf("policy fwd <n%d>/24 to <n%d>/24 block priority 0", peer, own),
	)}}
}
