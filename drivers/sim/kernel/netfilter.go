package kernel

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
)

// netfilter is a host's packet filter: flannel's chains of both flavours, and
// the rules of other programs.
type netfilter struct {
	host    *Host
	tools   [2]driver.Tools
	ours    map[dataplane.ChainKey]*flannelChain
	shared  map[sharedKey][]sharedRule
	policy  [2]dataplane.Verdict // of the chain FORWARD of iptables
	legacy  [2]legacyForward     // by family
	foreign []foreignChain
	mark    uint32 // that another program sets on incoming packets
	conns   conntrack

	lockedUntil time.Time // by another program
	hints       hinter
}

// flannelChain is one of flannel's chains.
type flannelChain struct {
	text  dataplane.Rules
	rules []dataplane.Rule // the same
	other string
	moved bool // nftables: hooked in at a wrong place
}

// legacyForward is the chain FORWARD of iptables-legacy, on a host whose program
// named iptables is the other variant.
type legacyForward struct {
	drops bool          // its policy
	ours  *flannelChain // flannel's chain and the jump to it; nil if there is none
}

// sharedKey names a chain of iptables to which every program adds rules:
// FORWARD and INPUT in the table filter, POSTROUTING in nat.
type sharedKey struct {
	family cidr.Family
	hook   dataplane.Hook
}

// sharedRule is a rule of a shared chain: the jump to flannel's chain, or a
// foreign rule.
type sharedRule struct {
	jump bool
	rule dataplane.Rule
}

// foreignChain is a base chain of nftables that another program has at the hook
// forward. It drops every packet that it does not accept.
type foreignChain struct {
	family  cidr.Family
	name    string   // of the table
	by      string   // names the policy or rule that drops
	trusted []string // links whose incoming packets it accepts
}

// EveryTool returns the tools that a host has by default.
func EveryTool() [2]driver.Tools {
	tools := driver.Tools{
		IPTables:     driver.Tool{Usable: true, About: "iptables v1.8.11 (nf_tables)", RandomFully: true},
		NFTables:     driver.Tool{Usable: true, About: "nftables v1.1.3", RandomFully: true},
		BridgeFilter: true,
	}
	return [2]driver.Tools{tools, tools}
}

func newNetfilter(h *Host) *netfilter {
	return &netfilter{
		host: h, tools: EveryTool(),
		ours:   map[dataplane.ChainKey]*flannelChain{},
		shared: map[sharedKey][]sharedRule{},
		policy: [2]dataplane.Verdict{dataplane.Accept, dataplane.Accept},
		conns:  newConntrack(),
		hints:  newHinter(),
	}
}

// chain returns one of flannel's chains as a value of the core, or false.
func (n *netfilter) chain(k dataplane.ChainKey) (dataplane.Chain, bool) {
	c := n.ours[k]
	jump := n.jump(k)
	if c == nil && jump == dataplane.Missing && n.legacyOf(k).ours == nil {
		return dataplane.Chain{}, false
	}
	if c == nil {
		c = &flannelChain{}
	}
	other := cmp.Or(c.other, n.legacyOf(k).drift(c.text))
	return dataplane.Chain{ChainKey: k, Jump: jump, Rules: c.text, Other: other}, true
}

// legacyOf returns the part of a chain that is in iptables-legacy, which can only
// be at the hook forward.
func (n *netfilter) legacyOf(k dataplane.ChainKey) *legacyForward {
	if k.Flavour != dataplane.IPTables || k.Hook != dataplane.Forward {
		return &legacyForward{}
	}
	return &n.legacy[k.Family]
}

// drift says how flannel's rules in iptables-legacy differ from the desired ones, which
// are those of the other variant while the policy drops packets, and none otherwise.
func (l *legacyForward) drift(rules dataplane.Rules) string {
	switch {
	case l.drops && (l.ours == nil || l.ours.text != rules):
		return "other rules in the other variant of iptables, whose FORWARD drops packets"
	case !l.drops && l.ours != nil:
		return "rules in the other variant of iptables"
	}
	return ""
}

// jump returns the position of the jump into a chain.
func (n *netfilter) jump(k dataplane.ChainKey) dataplane.Jump {
	if k.Flavour == dataplane.NFTables {
		switch c := n.ours[k]; {
		case c == nil:
			return dataplane.Missing
		case c.moved:
			return dataplane.Moved
		}
		return dataplane.Placed
	}
	rules := n.shared[sharedKey{k.Family, k.Hook}]
	first := slices.IndexFunc(rules, func(r sharedRule) bool { return r.jump })
	if first < 0 {
		return dataplane.Missing
	}
	if k.Hook == dataplane.Input {
		return jumpFirst(rules, first)
	}
	for _, r := range rules[first+1:] {
		if harmless := k.Hook == dataplane.Forward && !r.jump && r.rule.Verdict == dataplane.Accept; !harmless {
			return dataplane.Moved
		}
	}
	return dataplane.Placed
}

// jumpFirst returns the position of a jump that belongs before every rule that may accept a packet.
func jumpFirst(rules []sharedRule, jump int) dataplane.Jump {
	accepts := func(r sharedRule) bool { return r.rule.Verdict != dataplane.Drop }
	doubled := func(r sharedRule) bool { return r.jump }
	if slices.ContainsFunc(rules[:jump], accepts) || slices.ContainsFunc(rules[jump+1:], doubled) {
		return dataplane.Moved
	}
	return dataplane.Placed
}

// put makes a chain equal to the wanted one, including the jump to it.
func (n *netfilter) put(c dataplane.Chain) error {
	rules, err := c.Rules.List()
	if err != nil {
		return err
	}
	n.unjump(c.ChainKey)
	n.ours[c.ChainKey] = &flannelChain{text: c.Rules, rules: rules}
	legacy := n.legacyOf(c.ChainKey)
	legacy.ours = nil
	if legacy.drops {
		legacy.ours = &flannelChain{text: c.Rules, rules: rules}
	}
	if c.Flavour == dataplane.IPTables {
		k := sharedKey{c.Family, c.Hook}
		at := len(n.shared[k])
		if c.Hook == dataplane.Input {
			at = 0
		}
		n.shared[k] = slices.Insert(n.shared[k], at, sharedRule{jump: true})
	}
	return nil
}

// remove deletes a chain and every jump to it.
func (n *netfilter) remove(k dataplane.ChainKey) error {
	if _, there := n.chain(k); !there {
		return driver.ErrNotFound
	}
	n.unjump(k)
	delete(n.ours, k)
	n.legacyOf(k).ours = nil
	return nil
}

func (n *netfilter) unjump(k dataplane.ChainKey) {
	if k.Flavour == dataplane.IPTables {
		s := sharedKey{k.Family, k.Hook}
		n.shared[s] = slices.DeleteFunc(slices.Clone(n.shared[s]), func(r sharedRule) bool { return r.jump })
	}
}

// blocks returns the policies and rules of other programs that drop forwarded
// packets.
func (n *netfilter) blocks() (blocks []driver.ForwardBlock) {
	for _, f := range cidr.Families {
		if n.policy[f] == dataplane.Drop {
			table := [...]string{"ip", "ip6"}[f]
			blocks = append(blocks, driver.ForwardBlock{
				Family: f, By: "policy DROP of chain FORWARD in table " + table + " filter",
				OverriddenBy: dataplane.IPTables,
				Doubtful:     slices.ContainsFunc(n.foreignRules(sharedKey{f, dataplane.Forward}), mayAccept),
			})
		}
		if n.legacy[f].drops {
			table := [...]string{"iptables", "ip6tables"}[f]
			blocks = append(blocks, driver.ForwardBlock{
				Family: f, By: "policy DROP of chain FORWARD in table filter of " + table + "-legacy",
				OverriddenBy: dataplane.IPTables,
			})
		}
		for _, a := range n.foreign {
			if a.family == f {
				blocks = append(blocks, driver.ForwardBlock{Family: f, By: a.by, Doubtful: a.trusted != nil})
			}
		}
	}
	return blocks
}

// mayAccept reports whether a rule may keep packets from the block behind it,
// or lead them to a policy.
func mayAccept(r dataplane.Rule) bool {
	return r.Verdict == dataplane.Accept || r.Verdict == dataplane.Return
}

// foreignRules returns the foreign rules of a shared chain.
func (n *netfilter) foreignRules(k sharedKey) (rules []dataplane.Rule) {
	for _, r := range n.shared[k] {
		if !r.jump {
			rules = append(rules, r.rule)
		}
	}
	return rules
}

// dropsForward reports whether the host drops a forwarded packet that came in
// by a link, and which chain does. It asks every base chain at the hook: one
// may drop what another accepts.
func (n *netfilter) dropsForward(in string, f cidr.Family, p dataplane.Packet) (by string, drops bool) {
	legacy := n.legacy[f]
	if n.empty() && n.policy[f] == dataplane.Accept && !legacy.drops {
		return "", false
	}
	if legacy.drops && (legacy.ours == nil || firewall.Decide(legacy.ours.rules, p) != dataplane.Accept) {
		return "FORWARD of iptables-legacy", true
	}
	if n.decideShared(sharedKey{f, dataplane.Forward}, p, n.policy[f]) == dataplane.Drop {
		return "FORWARD", true
	}
	own := dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: dataplane.Forward}
	if n.decideOurs(own, p) == dataplane.Drop {
		return "forward", true
	}
	for _, a := range n.foreign {
		if a.family == f && !slices.Contains(a.trusted, in) {
			return a.name, true
		}
	}
	return "", false
}

// dropsInput reports whether the host drops a packet that ends here, and which chain does.
func (n *netfilter) dropsInput(p dataplane.Packet) (by string, drops bool) {
	if n == nil || n.empty() {
		return "", false
	}
	f := cidr.FamilyOf(p.Src)
	if n.decideShared(sharedKey{f, dataplane.Input}, p, dataplane.Accept) == dataplane.Drop {
		return "INPUT", true
	}
	own := dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: dataplane.Input}
	return "input", n.decideOurs(own, p) == dataplane.Drop
}

// inputPacket returns the parts of a packet that the rules at the hook input match.
func inputPacket(h ipHeader, payload []byte) dataplane.Packet {
	p := dataplane.Packet{In: cmp.Or(h.in, "lo"), Proto: h.proto, Src: h.src, Dst: h.dst}
	if h.proto == protoUDP && len(payload) >= 4 {
		p.Port = binary.BigEndian.Uint16(payload[2:])
	}
	return p
}

// masquerades decides the source of a connection that begins with p:
// Masquerade, MasqueradeRandom, or its own.
func (n *netfilter) masquerades(f cidr.Family, p dataplane.Packet) dataplane.Verdict {
	v := n.decideShared(sharedKey{f, dataplane.Postrouting}, p, dataplane.Accept)
	if v == dataplane.Masquerade || v == dataplane.MasqueradeRandom {
		return v
	}
	return n.decideOurs(dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: dataplane.Postrouting}, p)
}

// decideShared follows a packet through a shared chain.
func (n *netfilter) decideShared(k sharedKey, p dataplane.Packet, policy dataplane.Verdict) dataplane.Verdict {
	for _, r := range n.shared[k] {
		v := dataplane.Return
		switch {
		case r.jump:
			v = n.decideOurs(dataplane.ChainKey{Flavour: dataplane.IPTables, Family: k.family, Hook: k.hook}, p)
		case r.rule.Matches(p):
			v = r.rule.Verdict
			if v == dataplane.Return { // from a built-in chain: to its policy
				return policy
			}
		}
		if v != dataplane.Return {
			return v
		}
	}
	return policy
}

func (n *netfilter) decideOurs(key dataplane.ChainKey, p dataplane.Packet) dataplane.Verdict {
	c := n.ours[key]
	if c == nil {
		return dataplane.Return
	}
	return firewall.Decide(c.rules, p)
}

// empty reports whether there are no rules, and none that left connections
// behind. Most simulated hosts have none, and every packet asks, so the check
// must be cheap.
func (n *netfilter) empty() bool {
	return len(n.ours)+len(n.shared)+len(n.foreign)+len(n.conns.byOrig) == 0
}

// tracks reports whether the host tracks connections. As on Linux it does so only
// if a rule needs it.
func (n *netfilter) tracks(f cidr.Family) bool {
	if n == nil || n.empty() {
		return false
	}
	for _, flavour := range dataplane.Flavours {
		if n.ours[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: dataplane.Postrouting}] != nil {
			return true
		}
	}
	return len(n.shared[sharedKey{f, dataplane.Postrouting}]) > 0 || len(n.conns.byOrig) > 0
}

// masqueradeSource returns the source of masqueraded packets on a link: the
// link's address nearest to the next hop.
func masqueradeSource(r *route, dst netip.Addr) netip.Addr {
	if r.via.IsValid() {
		dst = r.via
	}
	return r.link.sourceFor(dst)
}
