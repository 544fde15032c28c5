package search

import (
	"fmt"
	"time"
)

// firewallFaults returns the faults of a host's packet filter.
func firewallFaults() []fault {
	all := []fault{
		one("rules-flushed", "fault N firewall flush-ruleset"),
		one("iptables-flushed", "fault N firewall flush-iptables"),
		one("jumps-moved", "fault N firewall jump-moved"),
		one("stray-rule", "fault N firewall stray-rule"),
		one("forward-policy-drop", "fault N firewall policy-drop"),
		one("legacy-policy-drop", "fault N firewall legacy-drop"),
		one("firewalld-restarted", "fault N firewall firewalld"),
		often(1, one("firewalld-zones", "fault N firewall firewalld-zones")),
		often(1, one("foreign-rule", "fault N firewall foreign-rule")),
		often(1, one("packets-marked", "fault N firewall mark=0xc000")),
		{name: "firewall-locked", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: d.fill("fault N firewall locked for=") + d.within(3*time.Second, time.Minute)}}
		}},
		{name: "flavour-changed", weight: 2, draw: func(d *drawing) []Step {
			return []Step{{Line: fmt.Sprintf("store firewall %s", pick(d.rng, "iptables", "nftables"))}}
		}},
	}
	for i := range all {
		tunnelled := all[i].name == "firewalld-zones" // its zone trusts no uplink
		all[i].fits = func(s shape) bool { return s.firewall != "none" && !(tunnelled && s.direct) }
	}
	return all
}
