package firewall

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// savedChain is a chain in the output of iptables-save.
type savedChain struct {
	policy string // "-" for a chain that is not at a hook
	rules  []iptRule
}

// saved holds the chains that may hold rules of flannel, by name. Shared and
// own chains of different tables have different names.
type saved map[string]*savedChain

// parseSave reads the output of iptables-save. It fails for a table that
// iptables-save omits because nft put something into it that iptables has no
// words for.
func parseSave(out string) (saved, error) {
	s := saved{}
	var table string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		switch rest := line[1:]; line[0] {
		case '#':
			for _, h := range dataplane.Hooks {
				if strings.HasPrefix(rest, fmt.Sprintf(" Table `%s' is incompatible", placeOf(h).table)) {
					return nil, errors.New(strings.TrimSpace(rest))
				}
			}
		case '*':
			table = rest
		case ':':
			if name, rest, _ := strings.Cut(rest, " "); mattersToIPTables(table, name) {
				policy, _, _ := strings.Cut(rest, " ")
				s[name] = &savedChain{policy: policy}
			}
		case '-':
			name, spec, _ := strings.Cut(strings.TrimPrefix(rest, "A "), " ")
			if c := s[name]; c != nil && mattersToIPTables(table, name) {
				c.rules = append(c.rules, parseRule(spec))
			}
		}
	}
	return s, nil
}

// found holds the parts of one hook's chain in one variant of iptables.
type found struct {
	chain  bool      // the chain exists
	rules  []iptRule // its rules
	jumps  []iptRule // the jumps to it from the shared chain
	placed bool      // there is one jump, or at the hook input one for each kind of packet, in its place
	former []iptRule // rules of older releases in the shared chain
}

// any reports whether any part exists.
func (f found) any() bool { return f.chain || len(f.jumps)+len(f.former) > 0 }

// at separates our rules of a hook from foreign rules.
func (s saved) at(f cidr.Family, h dataplane.Hook) found {
	var out found
	p := placeOf(h)
	if own := s[p.own]; own != nil {
		out.chain, out.rules = true, own.rules
	}
	shared := s[p.shared]
	if shared == nil {
		return out
	}
	var networks []netip.Prefix
	if h != dataplane.Input { // older releases had no rules there
		networks = s.formerNetworks(f)
	}
	var before, behind []iptRule
	for _, r := range shared.rules {
		switch {
		case r.target == p.own:
			before = append(before, behind...)
			out.jumps, behind = append(out.jumps, r), nil
		case isFormer(r, networks):
			out.former = append(out.former, r)
		default:
			behind = append(behind, r)
		}
	}
	if h == dataplane.Input {
		accepts := func(r iptRule) bool { return r.effect(p.own) == mayAccept }
		out.placed = out.leads(p) && !slices.ContainsFunc(before, accepts)
		return out
	}
	out.placed = len(out.jumps) == 1 && out.jumps[0].spec == jumpSpec(p, dataplane.Rule{}) &&
		!slices.ContainsFunc(behind, func(r iptRule) bool { return !mayFollow(h, r) })
	return out
}

// kinds returns the kinds of packets that the jumps lead into the chain.
func (f found) kinds() []dataplane.Rule {
	var kinds []dataplane.Rule
	for _, r := range f.jumps {
		kinds = append(kinds, r.rule)
	}
	return kinds
}

// leads reports whether the jumps to the chain at the hook input lead the packets there that its rules are
// about, and no others.
func (f found) leads(p place) bool {
	var rules []dataplane.Rule
	for _, r := range f.rules {
		rules = append(rules, r.rule)
	}
	want := entrants(rules)
	return len(want) > 0 && slices.EqualFunc(f.jumps, want, func(have iptRule, want dataplane.Rule) bool {
		return have.known && have.comment == p.comment && have.rule == want
	})
}

// entrants returns the kinds of packets that rules at the hook input are about.
func entrants(rules []dataplane.Rule) []dataplane.Rule {
	var kinds []dataplane.Rule
	for _, r := range rules {
		kind := dataplane.Rule{Proto: r.Proto, Port: r.Port}
		if r.Proto != 0 && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// mayFollow reports whether a foreign rule may come after our jump. Foreign
// rules come first, so usually none may. But programs that keep their rules at
// the end of FORWARD, as calico does, would fight with us for that place. If
// their rule only accepts packets, or is a policy written as a rule, the order
// makes no difference.
func mayFollow(h dataplane.Hook, r iptRule) bool {
	if h != dataplane.Forward {
		return false
	}
	switch r.target {
	case "ACCEPT", "MARK":
		return true
	case "DROP", "REJECT":
		return r.bare
	}
	return false
}

// isFormer reports whether an older release put a rule into a shared chain: its
// comment says so, or it is one of the rules for a network that releases before
// v0.16 made without comments.
func isFormer(r iptRule, networks []netip.Prefix) bool {
	if r.comment != "" {
		return slices.Contains(formerComments[:], r.comment)
	}
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return isFormerOf(r, n) })
}

// isFormerOf recognises the rules without a comment, up to v0.15 (interop 7.1).
func isFormerOf(r iptRule, n netip.Prefix) bool {
	if !r.known || r.rule.Mark != (dataplane.Mark{}) || r.rule.OfInput() {
		return false
	}
	in, out := dataplane.Match{Prefix: n}, dataplane.Match{Not: true, Prefix: n}
	from, to := r.rule.From, r.rule.To
	switch r.rule.Verdict {
	case dataplane.Return:
		return from == in && to == in ||
			from == out && !to.Not && cidr.Contains(n, to.Prefix)
	case dataplane.Masquerade, dataplane.MasqueradeRandom:
		spared := dataplane.Match{Not: true, Prefix: multicast(cidr.FamilyOf(n.Addr()))}
		return from == in && to == spared || from == out && to == in
	case dataplane.Accept:
		return from == in && !to.Prefix.IsValid() || to == in && !from.Prefix.IsValid()
	}
	return false
}

// formerNetworks finds the networks whose three rules, made by every release up
// to v0.15, are all in POSTROUTING without a comment. Fewer would prove
// nothing: administrators write such rules too.
func (s saved) formerNetworks(f cidr.Family) []netip.Prefix {
	shared := s[placeOf(dataplane.Postrouting).shared]
	if shared == nil {
		return nil
	}
	spared := dataplane.Match{Not: true, Prefix: multicast(f)}
	var networks []netip.Prefix
	proofs := map[netip.Prefix]int{}
	for _, r := range shared.rules {
		from, to := r.rule.From, r.rule.To
		n := from.Prefix
		if !r.known || r.comment != "" || r.rule.Mark != (dataplane.Mark{}) || r.rule.OfInput() || !n.IsValid() {
			continue
		}
		before := proofs[n]
		v := r.rule.Verdict
		masquerades := v == dataplane.Masquerade || v == dataplane.MasqueradeRandom
		switch {
		case v == dataplane.Return && !from.Not && to == from:
			proofs[n] |= 1
		case masquerades && !from.Not && to == spared:
			proofs[n] |= 2
		case masquerades && from.Not && to == dataplane.Match{Prefix: n}:
			proofs[n] |= 4
		}
		if proofs[n] == 7 && before != 7 {
			networks = append(networks, n)
		}
	}
	return networks
}

// neutralIPTables returns the neutral form of our chain in iptables. If the chain
// belongs into both variants, they should hold the same; otherwise the variant
// that does not make chains here should hold no part of it.
func neutralIPTables(k dataplane.ChainKey, here, elsewhere found, both bool) dataplane.Chain {
	c := neutralVariant(k, here)
	if c.Other != "" {
		return c
	}
	switch {
	case both && neutralVariant(k, elsewhere) != c:
		c.Other = "other rules in the other variant of iptables, whose FORWARD drops packets"
	case !both && elsewhere.any():
		c.Other = "rules in the other variant of iptables"
	}
	return c
}

// cutNetwork separates the network at the end of a comment from the text before it.
func cutNetwork(comment string) (text string, network netip.Prefix) {
	i := strings.LastIndexByte(comment, ' ')
	network, err := netip.ParsePrefix(comment[i+1:])
	if i < 0 || err != nil {
		return "", netip.Prefix{}
	}
	return comment[:i], network
}

// neutralVariant returns the neutral form of our chain in one variant of iptables.
func neutralVariant(k dataplane.ChainKey, in found) dataplane.Chain {
	p := placeOf(k.Hook)
	c := dataplane.Chain{ChainKey: k, Jump: dataplane.Moved}
	switch {
	case in.placed:
		c.Jump = dataplane.Placed
	case len(in.jumps) == 0:
		c.Jump = dataplane.Missing
	}
	var list []dataplane.Rule
	for _, r := range in.rules {
		comment := r.comment
		if k.Hook == dataplane.Input {
			comment, r.rule.Network = cutNetwork(comment)
		}
		strange := r.rule.OfInput() && k.Hook != dataplane.Input
		if !r.known || strange || comment != p.comment || r.rule.Verdict == "" {
			c.Other = "rule " + r.spec
			continue
		}
		list = append(list, r.rule)
	}
	c.Rules = dataplane.MakeRules(list...)
	if len(in.former) > 0 {
		c.Other = "rule of an older release in " + p.shared + ": " + in.former[0].spec
	}
	return c
}
