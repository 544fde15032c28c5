package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// SavedTable is the output of iptables-save for a part of a host's packet filter, with the program that owns it.
type SavedTable struct{ Name, Text string }

// SavedTables returns the rules of all programs about packets that a host forwards or keeps, in the form of
// iptables-save, those of nftables too.
func (h *Host) SavedTables(f cidr.Family) []SavedTable {
	n := h.filter
	all := h.stack.savedBlocks(f)
	if n.mark != 0 {
		all = append(all, SavedTable{"iptables",
			fmt.Sprintf("*mangle\n:PREROUTING ACCEPT\n-A PREROUTING -j MARK --set-mark %#x\n", n.mark)})
	}
	all = append(all, SavedTable{"iptables", n.savedShared(f)})
	if legacy := n.legacy[f]; legacy.drops {
		text := "*filter\n:FORWARD DROP\n:FLANNEL -\n"
		if legacy.ours != nil {
			text += "-A FORWARD -j FLANNEL\n" + savedRules("FLANNEL", legacy.ours.rules)
		}
		all = append(all, SavedTable{"iptables-legacy", text})
	}
	for _, hook := range []dataplane.Hook{dataplane.Forward, dataplane.Input} {
		c := n.ours[dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: hook}]
		if c != nil {
			base := strings.ToUpper(string(hook))
			all = append(all, SavedTable{"nftables", "*filter\n:" + base + " ACCEPT\n" + savedRules(base, c.rules)})
		}
	}
	for _, c := range n.foreign {
		if c.family != f {
			continue
		}
		text := "*filter\n:FORWARD DROP\n"
		for _, link := range c.trusted {
			text += "-A FORWARD -i " + link + " -j ACCEPT\n"
		}
		all = append(all, SavedTable{"nftables, " + c.name, text})
	}
	return all
}

// savedBlocks returns the rules of the host's own firewall.
func (s *stack) savedBlocks(f cidr.Family) []SavedTable {
	if len(s.blocks) == 0 {
		return nil
	}
	drops := slices.SortedFunc(maps.Keys(s.blocks), func(a, b blocked) int {
		return cmp.Or(cmp.Compare(a.proto, b.proto), cmp.Compare(a.port, b.port))
	})
	var rules []dataplane.Rule
	for _, b := range drops {
		if b.proto != icmpProto(1-f) {
			rules = append(rules, dataplane.Rule{Proto: b.proto, Port: b.port, Verdict: dataplane.Drop})
		}
	}
	return []SavedTable{{"nftables, table inet blocked", "*filter\n:INPUT ACCEPT\n" + savedRules("INPUT", rules)}}
}

// savedShared returns the chains of iptables to which every program adds rules, and flannel's.
func (n *netfilter) savedShared(f cidr.Family) string {
	policy := "ACCEPT"
	if n.policy[f] == dataplane.Drop {
		policy = "DROP"
	}
	text := "*filter\n:FORWARD " + policy + "\n:INPUT ACCEPT\n"
	for _, hook := range []dataplane.Hook{dataplane.Forward, dataplane.Input} {
		base := strings.ToUpper(string(hook))
		own := "FLANNEL-" + base
		text += ":" + own + " -\n"
		for _, r := range n.shared[sharedKey{f, hook}] {
			if r.jump {
				text += "-A " + base + " -j " + own + "\n"
			} else {
				text += savedRules(base, []dataplane.Rule{r.rule})
			}
		}
		if c := n.ours[dataplane.ChainKey{Flavour: dataplane.IPTables, Family: f, Hook: hook}]; c != nil {
			text += savedRules(own, c.rules)
		}
	}
	return text
}

// savedRules returns a line for each rule of a chain.
func savedRules(chain string, rules []dataplane.Rule) string {
	var text strings.Builder
	for _, r := range rules {
		text.WriteString("-A " + chain)
		if r.In != "" {
			text.WriteString(" -i " + r.In)
		}
		if r.Proto != 0 {
			fmt.Fprintf(&text, " -p %d", r.Proto)
		}
		if r.Port != 0 {
			fmt.Fprintf(&text, " --dport %d", r.Port)
		}
		if r.Mark.Mask != 0 {
			fmt.Fprintf(&text, " -m mark --mark %#x/%#x", r.Mark.Value, r.Mark.Mask)
		}
		text.WriteString(savedMatch(" -s ", r.From) + savedMatch(" -d ", r.To))
		text.WriteString(" -j " + strings.ToUpper(string(r.Verdict)) + "\n")
	}
	return text.String()
}

func savedMatch(option string, m dataplane.Match) string {
	switch {
	case !m.Prefix.IsValid():
		return ""
	case m.Not:
		return " !" + option + m.Prefix.String()
	}
	return option + m.Prefix.String()
}
