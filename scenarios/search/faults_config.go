package search

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// configFaults are the changes that an operator makes to the network config of a
// running cluster, member by member.
func configFaults() []fault {
	all := []fault{
		merged("config-mtu", isVXLAN, `{"Backend":{"MTU":1400}}`, `{"Backend":{"MTU":9000}}`, `{"Backend":{"MTU":null}}`),
		merged("config-port", hasPort, `{"Backend":{"Port":8473}}`, `{"Backend":{"Port":null}}`),
		merged("config-mode", hasModes, `{"Backend":{"Mode":"auto"}}`, `{"Backend":{"Mode":"ipv4"}}`,
			`{"Backend":{"Mode":null}}`),
		merged("config-vni", isVXLAN, `{"Backend":{"VNI":7}}`, `{"Backend":{"VNI":null}}`),
		merged("config-learning", canLearn, `{"Backend":{"Learning":true}}`, `{"Backend":{"Learning":null}}`),
		merged("config-gbp", isVXLAN, `{"Backend":{"GBP":true}}`, `{"Backend":{"GBP":null}}`),
		merged("config-direct-routing", isVXLAN, `{"Backend":{"DirectRouting":true}}`, `{"Backend":{"DirectRouting":false}}`),
		merged("config-subnet-range", isRoomy, `{"SubnetMin":"10.5.32.0","SubnetMax":"10.5.223.0"}`,
			`{"SubnetMin":"10.5.64.0","SubnetMax":null}`, `{"SubnetMin":null,"SubnetMax":null}`),
		merged("config-ipv6-subnet-range", hasIPv6, `{"IPv6SubnetMin":"fd00:10:5:20::","IPv6SubnetMax":"fd00:10:5:df::"}`,
			`{"IPv6SubnetMin":null,"IPv6SubnetMax":null}`),
		merged("config-subnet-length", isRoomy, `{"SubnetLen":25}`, `{"SubnetLen":24}`, `{"SubnetLen":null}`),
		merged("config-network-grown", hasIPv4, `{"Network":"10.4.0.0/15"}`),
		merged("config-ipv6-network-grown", hasIPv6, `{"IPv6Network":"fd00:10:4::/47"}`),
		// With both families off there is no network to settle on.
		merged("config-ipv6-switched", isDual, `{"EnableIPv4":true,"EnableIPv6":false}`, `{"EnableIPv6":true}`),
		merged("config-ipv4-switched", isDual, `{"EnableIPv4":false,"EnableIPv6":true}`, `{"EnableIPv4":true}`),
		{name: "config-backend", weight: 2, fits: func(s shape) bool { return s.change && len(changesFrom(s)) > 0 },
			draw: (*drawing).otherBackend},
		{name: "config-bad", weight: 2, draw: (*drawing).badConfig},
	}
	return all
}

// changesFrom returns the types of backends to which the cluster can change: they
// carry its families, over its segments, through its firewalls.
func changesFrom(s shape) []string {
	if s.nat || slices.Contains(rare, s.backend) { // NAT translates only UDP, and rare types keep no previous backend
		return nil
	}
	return slices.DeleteFunc(slices.Compact(backends(s.family)), func(name string) bool {
		plain := plainRoutes(name) && (s.segments > 1 || s.firewall != "none" && !s.direct)
		return plain || name == s.backend
	})
}

// otherBackend changes the type of the backend once the cluster has come to rest. In half
// of the draws it changes it back, or to a third one, at any moment of the first change.
func (d *drawing) otherBackend() []Step {
	types := changesFrom(d.top)
	steps := []Step{{Line: "settle within=30s"}}
	for i := range 1 + d.rng.IntN(2) {
		to := pick(d.rng, types...)
		if i > 0 {
			to = pick(d.rng, append(types, d.top.backend)...)
		}
		d.top.devices = append(slices.Clip(d.top.devices), devicesOf(to, d.top.family)...)
		steps = append(steps, Step{
			After: time.Duration(d.pause()).Round(time.Millisecond),
			Line:  "store merge", Input: fmt.Sprintf(`{"Backend":{"Type":%q}}`, to),
		})
	}
	return steps
}

// badConfig writes a config that no node can use. Sometimes a usable one follows before
// the heal.
func (d *drawing) badConfig() []Step {
	steps := []Step{{Line: "store config", Input: pick(d.rng, badConfigs()...)}}
	if d.rng.IntN(2) == 0 {
		steps = append(steps, Step{After: time.Duration(d.pause()), Line: "store merge", Input: "{}"})
	}
	return steps
}

// badConfigs returns configs that are not JSON, lack a network, contradict themselves, or
// ask for an option that no backend has.
func badConfigs() []string {
	return []string{
		`}garbage{`,
		``,
		`{}`,
		`{"Network":"nonsense","Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.5.0.0/16","SubnetLen":8,"Backend":{"Type":"host-gw"}}`,
		`{"Network":"10.5.0.0/16","SubnetMin":"10.9.0.0","Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.5.0.0/16","EnableIPv4":false}`,
		`{"Network":"10.5.0.0/16","EnableIPv6":true,"Backend":{"Type":"vxlan"}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"quantum"}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":-1}}`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"udp","Port":"much"}}`,
	}
}

func isVXLAN(s shape) bool { return s.backend == "vxlan" }

// canLearn is for nodes whose packets come from the address that they publish: a
// kernel that learns drops all others.
func canLearn(s shape) bool { return isVXLAN(s) && !s.nat }

func hasPort(s shape) bool  { return s.backend == "vxlan" || s.backend == "udp" }
func hasModes(s shape) bool { return s.backend == "wireguard" && isDual(s) }
func isRoomy(s shape) bool  { return s.roomy }
func hasIPv4(s shape) bool  { return s.family != "v6" }
func hasIPv6(s shape) bool  { return s.family != "v4" }
func isDual(s shape) bool   { return s.family == "dual" }

// merged merges one of some texts into the network config.
func merged(name string, fits func(shape) bool, texts ...string) fault {
	return fault{name: name, weight: 1, fits: fits, draw: func(d *drawing) []Step {
		text := pick(d.rng, texts...)
		d.top.direct = d.top.direct || strings.Contains(text, "DirectRouting")
		return []Step{{Line: "store merge", Input: text}}
	}}
}
