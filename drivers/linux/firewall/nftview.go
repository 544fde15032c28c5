package firewall

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// imprint is a hash that shows whether rules have changed. Zero: there are no
// rules.
type imprint [sha256.Size]byte

// nftView is one look at the kernel's nftables.
type nftView struct {
	chains []dataplane.Chain // our chains
	blocks []block
	// iptables holds, by family, an imprint of the iptables-nft chains that may
	// hold our rules.
	iptables [2]imprint
}

// look reads all tables that matter here. A change during the reading leads to
// a view that mixes old and new, so the caller compares the generations.
func (n *nftables) look() (nftView, error) {
	var v nftView
	tables, err := n.tables()
	if err != nil {
		return v, err
	}
	chains, err := n.chains()
	if err != nil {
		return v, err
	}
	for _, f := range cidr.Families {
		for _, t := range tables {
			if t.family != nl.AF(f) || t.name != wordsOf(f).table {
				continue
			}
			if err := n.lookOurs(&v, f, t, chains); err != nil {
				return v, err
			}
		}
		v.iptables[f], err = n.printIPTables(f, chains)
		if err != nil {
			return v, err
		}
	}
	v.blocks, err = n.blocks(chains)
	return v, err
}

// lookOurs reads our table of a family.
func (n *nftables) lookOurs(v *nftView, f cidr.Family, t nftTable, chains []nftChain) error {
	rules, err := n.rules(t.family, t.name, "")
	if err != nil {
		return err
	}
	first := len(v.chains)
	var odd string
	for _, c := range chains {
		if c.family != t.family || c.table != t.name {
			continue
		}
		if hook, ok := hookOf(c.name); ok {
			chain, err := n.neutral(f, hook, c, t, rules)
			if err != nil {
				return err
			}
			v.chains = append(v.chains, chain)
		} else {
			odd = "chain " + c.name + " beside it"
		}
	}
	if len(v.chains) == first { // a chain in the state makes the planner delete the table
		key := dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: dataplane.Forward}
		v.chains = append(v.chains, dataplane.Chain{ChainKey: key, Jump: dataplane.Missing, Other: "a table without chains"})
	}
	if odd != "" {
		v.chains[first].Other = odd
	}
	return nil
}

func hookOf(chain string) (dataplane.Hook, bool) {
	for _, h := range dataplane.Hooks {
		if baseOf(h).name == chain {
			return h, true
		}
	}
	return "", false
}

// neutral returns the neutral form of one of our chains in nftables.
func (n *nftables) neutral(
	f cidr.Family, hook dataplane.Hook, c nftChain, t nftTable, rules []nftRule,
) (dataplane.Chain, error) {
	out := dataplane.Chain{
		ChainKey: dataplane.ChainKey{Flavour: dataplane.NFTables, Family: f, Hook: hook},
		Jump:     dataplane.Placed,
	}
	want := baseOf(hook)
	switch {
	case !c.based || t.dormant:
		out.Jump = dataplane.Missing
	case c.kind != want.kind || c.hook != want.hook || c.priority != want.priority:
		out.Jump = dataplane.Moved
	}
	if c.drops {
		out.Other = "policy drop"
	}
	var list []dataplane.Rule
	for i, r := range rules {
		if r.chain != c.name {
			continue
		}
		rule, set, ok := decodeRule(f, r.exprs)
		if hook == dataplane.Input {
			rule.Network, _ = netip.ParsePrefix(r.comment)
		}
		ok = ok && (hook == dataplane.Input || !rule.OfInput() && set == "")
		sources := []netip.Prefix{rule.From.Prefix}
		if set != "" && ok {
			bounds, err := n.bounds(t.family, t.name, set)
			if err != nil {
				return out, err
			}
			sources, ok = prefixes(bounds)
		}
		if !ok {
			out.Other = fmt.Sprintf("rule %d of the table has another form", i+1)
			continue
		}
		for _, rule.From.Prefix = range sources {
			list = append(list, rule)
		}
	}
	out.Rules = dataplane.MakeRules(list...)
	return out, nil
}

// printIPTables computes the imprint of the iptables-nft chains that matter.
func (n *nftables) printIPTables(f cidr.Family, chains []nftChain) (imprint, error) {
	sum, found := sha256.New(), false
	for _, c := range chains {
		if c.family != nl.AF(f) || !mattersToIPTables(c.table, c.name) {
			continue
		}
		found = true
		fmt.Fprintln(sum, c)
		rules, err := n.rules(c.family, c.table, c.name)
		if err != nil {
			return imprint{}, err
		}
		for _, r := range rules {
			addRule(sum, r)
		}
	}
	if !found {
		return imprint{}, nil
	}
	return imprint(sum.Sum(nil)), nil
}

func mattersToIPTables(table, chain string) bool {
	for _, h := range dataplane.Hooks {
		if p := placeOf(h); p.table == table && (p.shared == chain || p.own == chain) {
			return true
		}
	}
	return false
}

func addRule(sum hash.Hash, r nftRule) {
	for name, data := range expressions(r.exprs) {
		fmt.Fprintln(sum, name, len(data))
		sum.Write(data)
	}
	fmt.Fprintln(sum)
}
