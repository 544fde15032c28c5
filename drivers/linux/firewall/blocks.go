package firewall

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// block is a ForwardBlock in a base chain at the hook forward.
type block struct {
	driver.ForwardBlock
	variant variant // the iptables that owns the chain; empty: none does
	passed  bool    // packets meet our chain of that iptables before the block
}

// effect is the certain effect of a rule on the packets that reach it.
type effect uint8

const (
	goesOn    effect = iota // the rule accepts no packet: it drops some, or none
	mayAccept               // it accepts some packets, or its effect is unknown to us
	dropsAll                // it drops or rejects every packet
	entersOur               // it sends every packet to our chain
)

// judge finds the block in a chain with a policy and rules of those effects.
// where names the chain. It returns false if the chain blocks no packet for
// certain.
func (b *block) judge(where string, policyDrops bool, effects []effect) bool {
	for i, e := range effects {
		switch e {
		case entersOur:
			b.passed = true
		case mayAccept:
			b.Doubtful = true
		case dropsAll:
			b.By = fmt.Sprintf("rule %d of %s, which drops everything", i+1, where)
			return true
		}
	}
	b.By = "policy DROP of " + where
	b.passed = true // our jump may still be appended
	return policyDrops
}

// blocks reads the base chains of other programs at the hook forward.
func (n *nftables) blocks(chains []nftChain) ([]block, error) {
	var all []block
	for _, f := range cidr.Families {
		for _, c := range chains {
			here := c.family == nl.AF(f) || c.family == unix.NFPROTO_INET
			if !here || !c.based || c.hook != hookForward || c.table == wordsOf(f).table {
				continue
			}
			rules, err := n.rules(c.family, c.table, c.name)
			if err != nil {
				return nil, err
			}
			if b, blocks := blockOf(f, c, rules, n.follower(c)); blocks {
				all = append(all, b)
			}
		}
	}
	return all, nil
}

// mostFollowed bounds the chains that one chain at the hook forward leads to.
const mostFollowed = 16

// follower returns the function that reads a chain to which rules of a base chain lead every packet, and returns its
// effect: dropsAll, goesOn if it only drops some packets, else mayAccept.
func (n *nftables) follower(base nftChain) func(chain string) effect {
	left := mostFollowed
	var follow func(chain string) effect
	follow = func(chain string) effect {
		left--
		if left < 0 {
			return mayAccept
		}
		rules, err := n.rules(base.family, base.table, chain)
		if err != nil {
			return mayAccept // the next look reads it
		}
		for _, r := range rules {
			switch effectOf(r.exprs, "", follow) {
			case dropsAll:
				return dropsAll
			case goesOn:
				continue
			}
			return mayAccept
		}
		return goesOn
	}
	return follow
}

func blockOf(f cidr.Family, c nftChain, rules []nftRule, follow func(string) effect) (block, bool) {
	b := block{ForwardBlock: driver.ForwardBlock{Family: f}}
	p := placeOf(dataplane.Forward)
	if c.family == nl.AF(f) && c.table == p.table && c.name == p.shared {
		b.variant = variantNFT
	}
	var effects []effect
	for _, r := range rules {
		effects = append(effects, effectOf(r.exprs, p.own, follow))
	}
	where := fmt.Sprintf("chain %s in table %s %s", c.name, familyName(c.family), c.table)
	return b, b.judge(where, c.drops, effects)
}

func familyName(af byte) string {
	switch af {
	case unix.AF_INET:
		return "ip"
	case unix.AF_INET6:
		return "ip6"
	}
	return "inet"
}

// conditions are the expressions that only select packets or record something.
// A lookup may also decide, see [effectOf].
var conditions = []string{
	"meta", "payload", "cmp", "bitwise", "byteorder", "range", "ct", "fib", "rt", "exthdr", "limit", "lookup", "match",
}

// effectOf returns the effect of a rule's expressions. own is our chain, and follow returns the effect of another one.
func effectOf(exprs []byte, own string, follow func(chain string) effect) effect {
	every := true // the expressions so far select every packet
	drops := func() effect {
		if every {
			return dropsAll
		}
		return goesOn
	}
	for name, data := range expressions(exprs) {
		switch a := numbered(data); {
		case name == "log", name == "match" && targetName(data) == "comment":
			continue
		case name == "reject", name == "target" && targetName(data) == "REJECT":
			return drops()
		case name == "target" && slices.Contains(marking, targetName(data)):
			return goesOn
		case name == "immediate" && isVerdict(a):
			return verdictEffect(a, own, every, drops, follow)
		case name == "lookup" && nl.BE32(a[unix.NFTA_LOOKUP_DREG]) == unix.NFT_REG_VERDICT && a[unix.NFTA_LOOKUP_DREG] != nil:
			return mayAccept // a map with verdicts
		case name == "immediate", slices.Contains(conditions, name):
			every = false
		default:
			return mayAccept
		}
	}
	return goesOn
}

// verdictEffect returns the effect of an immediate verdict on the packets that
// reach it.
func verdictEffect(
	a map[uint16][]byte, own string, every bool, drops func() effect, follow func(chain string) effect,
) effect {
	code, _ := verdictCode(a)
	switch {
	case code == verdictDrop:
		return drops()
	case !every || code != verdictJump && code != verdictGoto:
		return mayAccept
	case code == verdictJump && jumpTarget(a) == own:
		return entersOur
	}
	inside := follow(jumpTarget(a))
	if code == verdictGoto && inside == goesOn {
		return mayAccept // the packet goes to the policy
	}
	return inside
}

// marking holds the iptables targets that do not end a packet's evaluation.
var marking = []string{"LOG", "NFLOG", "MARK", "CONNMARK", "TCPMSS", "TRACE"}

// blocks reads the chain FORWARD of iptables-legacy.
func (s saved) blocks(f cidr.Family) []block {
	p := placeOf(dataplane.Forward)
	shared := s[p.shared]
	if shared == nil {
		return nil
	}
	var effects []effect
	for _, r := range shared.rules {
		effects = append(effects, r.effect(p.own))
	}
	b := block{ForwardBlock: driver.ForwardBlock{Family: f}, variant: variantLegacy}
	where := fmt.Sprintf("chain %s in table %s of %s-legacy", p.shared, p.table, wordsOf(f).iptables)
	if !b.judge(where, shared.policy == "DROP", effects) {
		return nil
	}
	return []block{b}
}

// effect returns the effect of a rule of iptables. own is our chain.
func (r iptRule) effect(own string) effect {
	words := splitWords(r.spec)
	target := ""
	if i := slices.Index(words, "-j"); i >= 0 && i+1 < len(words) {
		target = words[i+1]
	}
	switch {
	case target == own && r.target == own:
		return entersOur
	case target == "DROP" || target == "REJECT":
		if r.bare {
			return dropsAll
		}
		return goesOn
	case target == "" && !slices.Contains(words, "-g"), slices.Contains(marking, target):
		return goesOn
	}
	return mayAccept
}
