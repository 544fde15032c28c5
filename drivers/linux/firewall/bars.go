package firewall

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// bar is a Bar that knows which iptables it belongs to.
type bar struct {
	driver.Bar
	variant variant // none: it is not iptables'
	passed  bool    // our chain of that iptables is asked first
}

// deepest is how many chains behind one another are looked into.
const deepest = 8

// lookBars finds what drops forwarded packets that nobody accepted before.
func (n *nftables) lookBars(chains []nftChain) ([]bar, error) {
	var bars []bar
	for _, f := range cidr.Families {
		for _, c := range chains {
			if c.family != afOf(f) && c.family != unix.NFPROTO_INET || !c.based || c.hook != hookForward || c.table == wordsOf(f).table {
				continue
			}
			if b, there, err := n.barOf(f, c); err != nil {
				return nil, err
			} else if there {
				bars = append(bars, b)
			}
		}
	}
	return bars, nil
}

// barOf reads a base chain and says how it stands in the way, if it does.
func (n *nftables) barOf(f cidr.Family, c nftChain) (bar, bool, error) {
	rules, err := n.rules(c.family, c.table, c.name)
	if err != nil {
		return bar{}, false, err
	}
	b := bar{Bar: driver.Bar{Family: f}}
	p := placeOf(dataplane.Forward)
	if c.family == afOf(f) && c.table == p.table && c.name == p.shared {
		b.variant = variantNFT
	}
	where := fmt.Sprintf("chain %s in table %s %s", c.name, familyName(c.family), c.table)
	for i, r := range rules {
		if dropsAll(r.exprs) {
			b.By = fmt.Sprintf("rule %d of %s, which drops everything", i+1, where)
			rules = rules[:i]
			break
		}
		b.passed = b.passed || jumpsTo(r.exprs, p.own)
	}
	if b.By == "" {
		if !c.drops {
			return bar{}, false, nil
		}
		b.By, b.passed = "policy DROP of "+where, true
	}
	accepts, err := n.accepts(f, c, rules, dataplane.Rule{}, deepest)
	b.Accepts = dataplane.MakeRules(accepts...)
	return b, true, err
}

// accepts lists by which addresses strangers' rules, and the chains to which
// they send packets, accept some of the packets that a rule is for.
func (n *nftables) accepts(f cidr.Family, c nftChain, rules []nftRule, of dataplane.Rule, depth int) (all []dataplane.Rule, err error) {
	for _, r := range rules {
		rule, into, ok := decodeTheirs(f, r.exprs)
		both, one := narrow(of, rule)
		switch {
		case !ok || !one:
		case rule.Verdict == dataplane.Accept:
			both.Verdict = dataplane.Accept
			all = append(all, both)
		case into != "" && into != placeOf(dataplane.Forward).own && depth > 0:
			behind, err := n.rules(c.family, c.table, into)
			if err != nil {
				return nil, err
			}
			more, err := n.accepts(f, c, behind, both, depth-1)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// narrow returns the rule for packets that two rules are for, if it can be said
// in one.
func narrow(a, b dataplane.Rule) (dataplane.Rule, bool) {
	var none dataplane.Rule
	ok := (a.Mark == none.Mark || b.Mark == none.Mark) && (a.From == none.From || b.From == none.From) && (a.To == none.To || b.To == none.To)
	if a.Mark == none.Mark {
		a.Mark = b.Mark
	}
	if a.From == none.From {
		a.From = b.From
	}
	if a.To == none.To {
		a.To = b.To
	}
	return a, ok
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

// jumpsTo reports whether a rule leads every packet into a chain.
func jumpsTo(exprs []byte, chain string) bool {
	rule, into, ok := decodeTheirs(cidr.V4, exprs)
	return ok && into == chain && rule == dataplane.Rule{}
}

// dropsAll reports whether a rule drops or rejects every packet it is asked about.
func dropsAll(exprs []byte) bool {
	for name, data := range expressions(exprs) {
		switch name {
		case "log":
		case "reject":
			return true
		case "target":
			return targetName(data) == "REJECT"
		case "immediate":
			code, ok := verdictCode(numbered(data))
			return ok && code == verdictDrop
		case "match": // of iptables-nft
			if targetName(data) != "comment" {
				return false
			}
		default:
			return false
		}
	}
	return false
}

// bars finds what iptables-legacy drops of what nobody accepted before.
func (s saved) bars(f cidr.Family) []bar {
	p := placeOf(dataplane.Forward)
	shared := s[p.shared]
	if shared == nil {
		return nil
	}
	b := bar{Bar: driver.Bar{Family: f}, variant: variantLegacy}
	where := fmt.Sprintf("chain %s in table %s of %s-legacy", p.shared, p.table, wordsOf(f).iptables)
	var accepts []dataplane.Rule
	for i, r := range shared.rules {
		if r.bare && (r.target == "DROP" || r.target == "REJECT") {
			b.By = fmt.Sprintf("rule %d of %s, which drops everything", i+1, where)
			break
		}
		b.passed = b.passed || r.target == p.own
		if r.known && r.rule.Verdict == dataplane.Accept {
			accepts = append(accepts, r.rule)
		}
	}
	if b.By == "" {
		if shared.policy != "DROP" {
			return nil
		}
		b.By, b.passed = "policy DROP of "+where, true
	}
	b.Accepts = dataplane.MakeRules(accepts...)
	return []bar{b}
}
