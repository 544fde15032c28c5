package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// Guard names packets of the underlay that only some hosts may send to this one: those of an unencrypted
// device that the node keeps, beside an encrypting one, for peers that have not followed a change of backend.
type Guard struct {
	Proto uint8        // of the outer header: [dataplane.ProtoUDP] or [dataplane.ProtoIPIP]
	Port  uint16       // the destination, of UDP alone
	From  []netip.Addr // the outer addresses that may send such packets, of one family; empty: none
}

// String names the packets, such as "udp 8472" or "ipip".
func (g Guard) String() string {
	return strings.TrimSuffix(dataplane.Rule{Proto: g.Proto, Port: g.Port}.String(), " ")
}

// Same reports whether two guards are equal.
func (g Guard) Same(o Guard) bool {
	return g.Proto == o.Proto && g.Port == o.Port && slices.Equal(g.From, o.From)
}

// guarding returns the rules of the chain at the hook input. They accept no packet: those that may
// enter go on to the rules of other programs. Packets that this host sends to itself stay as they are.
func guarding(network netip.Prefix, guards []Guard) []dataplane.Rule {
	rules := []dataplane.Rule{{Network: network, In: "lo", Verdict: dataplane.Return}}
	for _, g := range guards {
		for _, p := range cidr.Cover(g.From) {
			admits := dataplane.Rule{Network: network, Proto: g.Proto, Port: g.Port, From: within(p), Verdict: dataplane.Return}
			rules = append(rules, admits)
		}
		rules = append(rules, g.ends(network))
	}
	return rules
}

// ends returns the rule that drops the packets of all other hosts.
func (g Guard) ends(network netip.Prefix) dataplane.Rule {
	return dataplane.Rule{Network: network, Proto: g.Proto, Port: g.Port, Verdict: dataplane.Drop}
}

// InForce reports whether the chains of a host hold the guards of a network: each drops its packets from hosts
// that it does not admit. The admitted hosts may be those of a moment ago.
func InForce(have *dataplane.State, f cidr.Family, network netip.Prefix, guards []Guard) bool {
	held := func(g Guard) bool {
		return slices.ContainsFunc(dataplane.Flavours[:], func(flavour dataplane.Flavour) bool {
			c := have.Chains[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: dataplane.Input}]
			ends := string(dataplane.MakeRules(g.ends(network)))
			return c.Jump == dataplane.Placed && c.Other == "" && strings.Contains(string(c.Rules)+"; ", ends+"; ")
		})
	}
	return !slices.ContainsFunc(guards, func(g Guard) bool { return !held(g) })
}

// HasGuards reports whether a chain of a host holds guards, of any network.
func HasGuards(have *dataplane.State) bool {
	for key, c := range have.Chains {
		if key.Hook == dataplane.Input && c.Rules != "" {
			return true
		}
	}
	return false
}

// KeepGuards adds to the wanted chains the guards that the host has for some networks.
func (w *Wanted) KeepGuards(have *dataplane.State, networks []netip.Prefix) {
	for key, c := range have.Chains {
		rules, err := c.Rules.List()
		if key.Hook != dataplane.Input || err != nil {
			continue
		}
		wanted, _ := w.Chains.Chains[key].Rules.List()
		own := minus(rules, guardsOfOthers(rules, networks))
		if kept := append(wanted, minus(own, wanted)...); len(kept) > 0 {
			w.Chains.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(kept...)})
		}
	}
}

// guardsOfOthers returns the rules of a chain at the hook input that belong to networks of other daemons.
func guardsOfOthers(rules []dataplane.Rule, networks []netip.Prefix) []dataplane.Rule {
	ours := func(r dataplane.Rule) bool {
		return !r.Network.IsValid() || slices.ContainsFunc(networks, r.Network.Overlaps)
	}
	return slices.DeleteFunc(slices.Clone(rules), ours)
}

// unguarded says that a family has no packet filter for the guards.
func unguarded(f cidr.Family, guards []Guard, err error) []string {
	var notes []string
	for _, g := range guards {
		notes = append(notes, fmt.Sprintf("no packet filter keeps %s packets of %s from other hosts than peers: %v",
			f, g, err))
	}
	return notes
}
