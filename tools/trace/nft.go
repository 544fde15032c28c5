package trace

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// nftObject is one member of the list that nft -j prints.
type nftObject struct {
	Chain *struct {
		Family, Table, Name, Hook, Policy, Type string
	}
	Rule *struct {
		Family, Table, Chain string
		Expr                 []map[string]json.RawMessage
	}
}

// parseNFT reads what nft -j list ruleset prints, for the packets of one family: a filter for each
// table. The tables for which iptables is true are left out.
func parseNFT(family cidr.Family, out []byte, iptables func(table string) bool) ([]Filter, error) {
	var ruleset struct{ NFTables []nftObject }
	if err := json.Unmarshal(out, &ruleset); err != nil {
		return nil, fmt.Errorf("read the rules of nftables: %w", err)
	}
	tables := map[string]*Filter{}
	var names []string
	own := cidr.Pick(family, "ip", "ip6")
	table := func(of, name string) *Filter {
		if of != own && of != "inet" || of == own && iptables(name) {
			return nil
		}
		full := "nftables, table " + of + " " + name
		if tables[full] == nil {
			tables[full] = &Filter{Name: full, Chains: map[string]*Chain{}}
			names = append(names, full)
		}
		return tables[full]
	}
	for _, o := range ruleset.NFTables {
		switch {
		case o.Chain != nil:
			c := o.Chain
			if t := table(c.Family, c.Table); t != nil {
				t.Chains[c.Name] = &Chain{Drops: c.Policy == "drop"}
				if c.Type == "filter" {
					t.Chains[c.Name].Hook = c.Hook
				}
			}
		case o.Rule != nil:
			t := table(o.Rule.Family, o.Rule.Table)
			if t == nil {
				continue
			}
			if c := t.Chains[o.Rule.Chain]; c != nil {
				c.Rules = append(c.Rules, nftRule(o.Rule.Expr))
			}
		}
	}
	var all []Filter
	for _, name := range names {
		all = append(all, *tables[name])
	}
	return all, nil
}

// nftRule reads one rule. An expression that it does not know makes the rule one whose
// packets are not known.
func nftRule(exprs []map[string]json.RawMessage) Rule {
	var r Rule
	var words []string
	for _, e := range exprs {
		for name, data := range e {
			var to struct{ Target string }
			switch name {
			case "match":
				c, text := nftMatch(data)
				r.Conditions = append(r.Conditions, c)
				words = append(words, text)
				continue
			case "counter", "log", "comment":
				continue
			case "limit":
				r.Conditions = append(r.Conditions, unknownCondition)
			case "mangle", "meta", "notrack": // they change nothing that matters here
				r.Verdict = verdictNone
			case "accept":
				r.Verdict = verdictAccept
			case "drop", "reject":
				r.Verdict = verdictDrop
			case "return":
				r.Verdict = verdictReturn
			case "jump", "goto":
				_ = json.Unmarshal(data, &to) // without a target no chain is entered
				r.Target, r.Verdict = to.Target, verdictJump
				if name == "goto" {
					r.Verdict = verdictGoto
				}
				name += " " + to.Target
			default:
				r.Verdict = verdictUnknown
			}
			words = append(words, name)
		}
	}
	r.Text = strings.Join(words, " ")
	return r
}

// nftMatch reads a comparison, and returns it as a condition and as text.
func nftMatch(data json.RawMessage) (condition, string) {
	var m struct {
		Op   string
		Left struct {
			Meta    struct{ Key string }
			Payload struct{ Protocol, Field string }
			CT      struct{ Key string }
		}
		Right json.RawMessage
	}
	if json.Unmarshal(data, &m) != nil {
		return unknownCondition, "a condition"
	}
	values, ok := nftValues(m.Right)
	left := m.Left.Meta.Key + m.Left.CT.Key
	if m.Left.Payload.Field != "" {
		left = m.Left.Payload.Protocol + " " + m.Left.Payload.Field
	}
	negated := ""
	if m.Op == "!=" {
		negated = "!= "
	}
	text := left + " " + negated + strings.Join(values, ",")
	if !ok || m.Op != "==" && m.Op != "!=" && m.Op != "in" {
		return unknownCondition, text
	}
	c := nftCondition(left, values)
	if m.Op == "!=" {
		positive := c
		c = func(p packet) answer { return positive(p).not() }
	}
	return c, text
}

// nftCondition returns the condition that a field of the packet has one of some values.
func nftCondition(left string, values []string) condition {
	switch left {
	case "iifname", "iif", "oifname", "oif":
		of := inOf
		if strings.HasPrefix(left, "o") {
			of = outOf
		}
		return func(p packet) answer {
			return answerOf(slices.ContainsFunc(values, func(name string) bool { return device(of, name, "*")(p) == yes }))
		}
	case "l4proto", "ip protocol", "ip6 nexthdr":
		return protocol(values...)
	case "nfproto":
		return func(p packet) answer {
			return answerOf(slices.Contains(values, cidr.Pick(cidr.FamilyOf(p.dst), "ipv4", "ipv6")))
		}
	case "ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr":
		of := srcOf
		if strings.HasSuffix(left, "daddr") {
			of = dstOf
		}
		var prefixes []netip.Prefix
		for _, value := range values {
			prefix, ok := prefixOf(value)
			if !ok {
				return unknownCondition
			}
			prefixes = append(prefixes, prefix)
		}
		return within(of, prefixes...)
	case "tcp dport", "udp dport", "th dport":
		ranges, ok := portRanges(strings.Join(values, ","), "-")
		if !ok {
			return unknownCondition
		}
		toPort := ports(ranges...)
		named, _, _ := strings.Cut(left, " ")
		if named == "th" {
			return toPort
		}
		return func(p packet) answer {
			if is := protocol(named)(p); is != yes {
				return is
			}
			return toPort(p)
		}
	case "state":
		return beginsFlow(values)
	}
	return unknownCondition
}

// nftValues returns the values of a comparison as text: one, those of a set, prefixes and ranges.
// It returns false for others, such as the name of a set.
func nftValues(data json.RawMessage) ([]string, bool) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []string{text}, !strings.HasPrefix(text, "@")
	}
	var number json.Number
	if json.Unmarshal(data, &number) == nil {
		return []string{number.String()}, true
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		var all []string
		for _, one := range list {
			values, ok := nftValues(one)
			if !ok {
				return nil, false
			}
			all = append(all, values...)
		}
		return all, true
	}
	var compound struct {
		Set    json.RawMessage
		Range  []json.RawMessage
		Prefix *struct {
			Addr string
			Len  int
		}
	}
	if json.Unmarshal(data, &compound) != nil {
		return nil, false
	}
	switch {
	case compound.Prefix != nil:
		return []string{fmt.Sprintf("%s/%d", compound.Prefix.Addr, compound.Prefix.Len)}, true
	case compound.Set != nil:
		return nftValues(compound.Set)
	case len(compound.Range) == 2:
		first, ok := nftValues(compound.Range[0])
		last, also := nftValues(compound.Range[1])
		if ok && also && len(first) == 1 && len(last) == 1 {
			return []string{first[0] + "-" + last[0]}, true
		}
	}
	return nil, false
}
