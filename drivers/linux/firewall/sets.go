package firewall

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/nl"
)

// A guard may admit thousands of addresses. nftables finds one in a set without asking a rule for each, so
// neighbouring rules at the hook input that differ in nothing but their source are one rule with a set.

// sourcesFrom returns how many rules, from the first, are one rule of nftables.
func sourcesFrom(hook dataplane.Hook, rules []dataplane.Rule) int {
	alike := func(r dataplane.Rule) bool {
		hasSource := r.From.Prefix.IsValid() && !r.From.Not
		r.From = rules[0].From
		return hasSource && r == rules[0]
	}
	n := 1
	for hook == dataplane.Input && alike(rules[0]) && n < len(rules) && alike(rules[n]) {
		n++
	}
	return n
}

// nftSources returns the text of the rule of nftables that several are: its source is a set.
func nftSources(f cidr.Family, rules []dataplane.Rule) (string, error) {
	r := rules[0]
	text, err := nftRuleText(f, r)
	if len(rules) == 1 {
		return text, err
	}
	sources := make([]string, len(rules))
	for i, r := range rules {
		sources[i] = r.From.Prefix.String()
	}
	field := wordsOf(f).ip + " saddr "
	return strings.Replace(text, field+r.From.Prefix.String(), field+"{ "+strings.Join(sources, ", ")+" }", 1), err
}

// bound is an element of a set: where a range of addresses begins, or with end the address behind its last one.
type bound struct {
	addr netip.Addr
	end  bool
}

// bounds reads the elements of a set.
func (n *nftables) bounds(family byte, table, set string) ([]bound, error) {
	request := n.begin(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, family)
	request.AttrString(unix.NFTA_SET_ELEM_LIST_TABLE, table)
	request.AttrString(unix.NFTA_SET_ELEM_LIST_SET, set)
	answers, err := n.dump()
	if errors.Is(err, unix.ENOENT) { // gone since it was listed
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list set %s of table %s of nftables: %w", set, table, err)
	}
	var all []bound
	for _, b := range answers {
		for _, element := range nl.Attrs(numbered(b)[unix.NFTA_SET_ELEM_LIST_ELEMENTS]) {
			a := numbered(element)
			addr, _ := netip.AddrFromSlice(dataValue(a[unix.NFTA_SET_ELEM_KEY]))
			all = append(all, bound{addr, nl.BE32(a[unix.NFTA_SET_ELEM_FLAGS])&unix.NFT_SET_ELEM_INTERVAL_END != 0})
		}
	}
	return all, nil
}

// prefixes returns the fewest prefixes with the addresses between bounds. It returns false for other elements
// than addresses.
func prefixes(all []bound) ([]netip.Prefix, bool) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b bound) int { return cmp.Or(a.addr.Compare(b.addr), order(b.end)-order(a.end)) })
	ranges := slices.ContainsFunc(all, func(b bound) bool { return b.end })
	var found []netip.Prefix
	for i, b := range all {
		switch {
		case !b.addr.IsValid(), i > 0 && b.addr.BitLen() != all[0].addr.BitLen():
			return nil, false
		case b.end:
			continue
		case !ranges:
			found = append(found, netip.PrefixFrom(b.addr, b.addr.BitLen()))
		case i+1 == len(all) || !all[i+1].end:
			return nil, false
		default:
			found = append(found, between(b.addr, all[i+1].addr)...)
		}
	}
	return found, true
}

// order puts the end of a range before the beginning of the next.
func order(end bool) int {
	if end {
		return 1
	}
	return 0
}

// between returns the fewest prefixes from an address to the one before another.
func between(first, end netip.Addr) []netip.Prefix {
	var all []netip.Prefix
	for first.IsValid() && first.Less(end) {
		p := netip.PrefixFrom(first, first.BitLen())
		for p.Bits() > 0 {
			wider := netip.PrefixFrom(first, p.Bits()-1)
			if wider.Masked() != wider || !cidr.Last(wider).Less(end) {
				break
			}
			p = wider
		}
		all = append(all, p)
		first = cidr.Last(p).Next()
	}
	return all
}
