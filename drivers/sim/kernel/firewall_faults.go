package kernel

import (
	"fmt"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// This file is what an administrator or another program does to a host's
// packet filter behind flannel's back.

// upset notes what somebody did, and lets the kernel hint.
func (n *netfilter) upset(format string, args ...any) {
	n.host.world.Note(n.host.name+": firewall fault", fmt.Sprintf(format, args...))
	n.hint()
}

// FlushRuleset is "nft flush ruleset", on a host whose iptables is made of
// nftables: every rule of everybody goes, with the policies.
func (h *Host) FlushRuleset() {
	n := h.wall
	clear(n.ours)
	clear(n.shared)
	n.alien = nil
	n.policy = [2]dataplane.Verdict{dataplane.Accept, dataplane.Accept}
	n.upset("nft flush ruleset")
}

// FlushIPTables is "iptables -F" for both tables and families: all chains of
// iptables stay, and are empty.
func (h *Host) FlushIPTables() {
	n := h.wall
	for k, c := range n.ours {
		if k.Flavour == dataplane.IPTables {
			*c = ourChain{}
		}
	}
	clear(n.shared)
	n.upset("iptables -F")
}

// MoveJump puts the jump to each chain of ours first in iptables, and hooks
// those of nftables in elsewhere. Without a chain, nothing happens.
func (h *Host) MoveJump() {
	n := h.wall
	for k, rules := range n.shared {
		if !slices.ContainsFunc(rules, func(r sharedRule) bool { return r.jump }) {
			continue
		}
		// It needs something to stand before: what CNI plugins append.
		rules = slices.DeleteFunc(slices.Clone(rules), func(r sharedRule) bool { return r.jump })
		rules = append([]sharedRule{{jump: true}}, rules...)
		n.shared[k] = append(rules, sharedRule{rule: dataplane.Rule{Mark: dataplane.Mark{Value: 1, Mask: 1}, Verdict: dataplane.Accept}})
	}
	for k, c := range n.ours {
		c.moved = k.Flavour == dataplane.NFTables
	}
	n.upset("jumps moved")
}

// StrayRule puts a rule of a stranger's first into each chain of ours.
func (h *Host) StrayRule(r dataplane.Rule) {
	for _, c := range h.wall.ours {
		c.rules = append([]dataplane.Rule{r}, c.rules...)
		c.text = dataplane.MakeRules(c.rules...)
	}
	h.wall.upset("stray rule %s", r)
}

// ForwardPolicy sets the policy of the chain FORWARD of iptables.
func (h *Host) ForwardPolicy(v dataplane.Verdict) {
	h.wall.policy = [2]dataplane.Verdict{v, v}
	h.wall.upset("policy %s", v)
}

// AddAlien adds a base chain of another program that drops every forwarded
// packet; RemoveAlien takes it away.
func (h *Host) AddAlien(name string) {
	h.addAlien(alienChain{name: name, by: "policy DROP of chain forward in table inet " + name})
}

// AddZones adds firewalld's chains under that table name: they accept packets
// that come in by the trusted links and reject all others. RemoveAlien takes
// them away.
func (h *Host) AddZones(name string, trusted ...string) {
	by := "rule 6 of chain filter_FORWARD in table inet " + name + ", which drops everything"
	h.addAlien(alienChain{name: name, by: by, trusted: trusted})
}

func (h *Host) addAlien(a alienChain) {
	h.RemoveAlien(a.name)
	for _, a.family = range cidr.Families {
		h.wall.alien = append(h.wall.alien, a)
	}
	h.wall.upset("chain %s", a.name)
}

// RemoveAlien takes away the chains of AddAlien and AddZones.
func (h *Host) RemoveAlien(name string) {
	h.wall.alien = slices.DeleteFunc(slices.Clone(h.wall.alien), func(a alienChain) bool { return a.name == name })
	h.wall.upset("no chain %s", name)
}

// ForeignRule puts a stranger's rule first into a chain that everybody adds to.
func (h *Host) ForeignRule(f cidr.Family, hook dataplane.Hook, r dataplane.Rule) {
	k := sharedKey{f, hook}
	h.wall.shared[k] = append([]sharedRule{{rule: r}}, h.wall.shared[k]...)
	h.wall.upset("%s rule %s", hook, r)
}

// ForeignRules are those of strangers in a chain that everybody adds to.
func (h *Host) ForeignRules(f cidr.Family, hook dataplane.Hook) []dataplane.Rule {
	return h.wall.strangers(sharedKey{f, hook})
}

// RemoveForeignRule takes a stranger's rule away again.
func (h *Host) RemoveForeignRule(f cidr.Family, hook dataplane.Hook, rule dataplane.Rule) {
	k := sharedKey{f, hook}
	h.wall.shared[k] = slices.DeleteFunc(slices.Clone(h.wall.shared[k]), func(r sharedRule) bool { return !r.jump && r.rule == rule })
	h.wall.upset("no %s rule %s", hook, rule)
}

// RestartFirewalld is what a restart of firewalld or of Docker leaves: the
// shared chains hold their own rules and nobody else's, and the policy of
// FORWARD is DROP. Chains of others stay, without a way into them.
func (h *Host) RestartFirewalld() {
	n := h.wall
	clear(n.shared)
	n.policy = [2]dataplane.Verdict{dataplane.Drop, dataplane.Drop}
	n.upset("firewalld restarted")
}

// MarkPackets lets a stranger, such as kube-proxy, set these bits of the mark
// of each packet that comes in; 0 ends that.
func (h *Host) MarkPackets(mark uint32) {
	h.wall.mark = mark
	h.wall.upset("mark %#x", mark)
}

// LockFirewall lets a stranger hold the lock of the packet filter for so long.
func (h *Host) LockFirewall(length time.Duration) {
	h.wall.lockedUntil = h.world.Now().Add(length)
	h.world.Note(h.name+": firewall locked", length.String())
}

// SetTools says what chains can be made with.
func (h *Host) SetTools(tools [2]driver.Tools) {
	h.wall.tools = tools
	h.wall.upset("tools %+v", tools)
}
