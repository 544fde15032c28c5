package kernel

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// The functions of this file change a host's packet filter behind flannel's
// back, as an administrator or another program does.

// upset notes a change by another program, and makes the kernel hint.
func (n *netfilter) upset(format string, args ...any) {
	n.host.world.Note(n.host.name+": firewall fault", fmt.Sprintf(format, args...))
	n.hint()
}

// FlushRuleset is "nft flush ruleset" on a host whose iptables is nftables
// underneath: it deletes every rule of every program, and the policies.
func (h *Host) FlushRuleset() {
	n := h.filter
	clear(n.ours)
	clear(n.shared)
	n.foreign = nil
	n.policy = [2]dataplane.Verdict{dataplane.Accept, dataplane.Accept}
	n.upset("nft flush ruleset")
}

// FlushIPTables is "iptables -F" for both tables and families: all chains of
// iptables stay, and are empty.
func (h *Host) FlushIPTables() {
	n := h.filter
	for k, c := range n.ours {
		if k.Flavour == dataplane.IPTables {
			*c = flannelChain{}
		}
	}
	clear(n.shared)
	n.upset("iptables -F")
}

// MoveJump puts the jump to each of flannel's chains first in iptables, that in INPUT last, and
// hooks those of nftables in elsewhere. Without a chain it does nothing.
func (h *Host) MoveJump() {
	n := h.filter
	for k, rules := range n.shared {
		if !slices.ContainsFunc(rules, func(r sharedRule) bool { return r.jump }) {
			continue
		}
		// Append a rule behind the jump, as CNI plugins do, or put one before it.
		rules = slices.DeleteFunc(slices.Clone(rules), func(r sharedRule) bool { return r.jump })
		jump := sharedRule{jump: true}
		marked := dataplane.Rule{Mark: dataplane.Mark{Value: 1, Mask: 1}, Verdict: dataplane.Accept}
		if k.hook == dataplane.Input {
			n.shared[k] = append(rules, sharedRule{rule: marked}, jump)
			continue
		}
		n.shared[k] = append(append([]sharedRule{jump}, rules...), sharedRule{rule: marked})
	}
	for k, c := range n.ours {
		c.moved = k.Flavour == dataplane.NFTables
	}
	n.upset("jumps moved")
}

// AddStrayRule adds a foreign rule as the first of each of flannel's chains.
func (h *Host) AddStrayRule(r dataplane.Rule) {
	for _, c := range h.filter.ours {
		c.rules = append([]dataplane.Rule{r}, c.rules...)
		c.text = dataplane.MakeRules(c.rules...)
	}
	h.filter.upset("stray rule %s", r)
}

// ForwardPolicy sets the policy of the chain FORWARD of iptables.
func (h *Host) ForwardPolicy(v dataplane.Verdict) {
	h.filter.policy = [2]dataplane.Verdict{v, v}
	h.filter.upset("policy %s", v)
}

// LegacyPolicy sets the policy of the chain FORWARD of iptables-legacy, which the
// kernel announces to no program.
func (h *Host) LegacyPolicy(v dataplane.Verdict) {
	for _, f := range cidr.Families {
		h.filter.legacy[f].drops = v == dataplane.Drop
	}
	h.world.Note(h.name+": firewall fault", fmt.Sprintf("policy %s of iptables-legacy", v))
}

// AddForeignTable adds another program's table of that name, whose base chain
// drops every forwarded packet. RemoveForeignTable removes it.
func (h *Host) AddForeignTable(name string) {
	h.addForeignChain(foreignChain{name: name, by: "policy DROP of chain forward in table inet " + name})
}

// AddZones adds firewalld's chains under that table name: they accept packets
// that come in by the trusted links and reject all others. RemoveForeignTable
// removes them.
func (h *Host) AddZones(name string, trusted ...string) {
	by := "rule 6 of chain filter_FORWARD in table inet " + name + ", which drops everything"
	h.addForeignChain(foreignChain{name: name, by: by, trusted: trusted})
}

func (h *Host) addForeignChain(a foreignChain) {
	h.RemoveForeignTable(a.name)
	for _, a.family = range cidr.Families {
		h.filter.foreign = append(h.filter.foreign, a)
	}
	h.filter.upset("chain %s", a.name)
}

// RemoveForeignTable removes the chains of AddForeignTable and AddZones.
func (h *Host) RemoveForeignTable(name string) {
	named := func(c foreignChain) bool { return c.name == name }
	h.filter.foreign = slices.DeleteFunc(slices.Clone(h.filter.foreign), named)
	h.filter.upset("no chain %s", name)
}

// ForeignRule puts a foreign rule first into a shared chain.
func (h *Host) ForeignRule(f cidr.Family, hook dataplane.Hook, r dataplane.Rule) {
	k := sharedKey{f, hook}
	h.filter.shared[k] = append([]sharedRule{{rule: r}}, h.filter.shared[k]...)
	h.filter.upset("%s rule %s", hook, r)
}

// ForeignRules returns the foreign rules of a shared chain.
func (h *Host) ForeignRules(f cidr.Family, hook dataplane.Hook) []dataplane.Rule {
	return h.filter.foreignRules(sharedKey{f, hook})
}

// RestartFirewalld does to the rules what a restart of firewalld or of Docker
// does: the shared chains hold only that program's rules, and the policy of
// FORWARD is DROP. Chains of other programs stay, without a way into them.
func (h *Host) RestartFirewalld() {
	n := h.filter
	clear(n.shared)
	n.policy = [2]dataplane.Verdict{dataplane.Drop, dataplane.Drop}
	n.upset("firewalld restarted")
}

// MarkPackets makes another program, such as kube-proxy, set these bits of the
// mark of each incoming packet; 0 ends that.
func (h *Host) MarkPackets(mark uint32) {
	h.filter.mark = mark
	h.filter.upset("mark %#x", mark)
}

// LockFirewall makes another program hold the lock of the packet filter for this
// long.
func (h *Host) LockFirewall(length time.Duration) {
	h.filter.lockedUntil = h.world.Now().Add(length)
	h.world.Note(h.name+": firewall locked", length.String())
}

// SetTools sets the tools that can make chains on the host.
func (h *Host) SetTools(tools [2]driver.Tools) {
	h.filter.tools = tools
	h.filter.upset("tools %+v", tools)
}
