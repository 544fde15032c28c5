package ruleset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// field is the left side of a comparison.
type field struct {
	Meta    struct{ Key string }
	Payload struct{ Protocol, Field string }
	CT      struct{ Key string }
	Fib     struct {
		Result string
		Flags  []string
	}
	And    []json.RawMessage `json:"&"`
	Concat []json.RawMessage
}

// name returns a field's name, as nft writes it.
func (f field) name() string {
	switch {
	case f.Payload.Field != "":
		return f.Payload.Protocol + " " + f.Payload.Field
	case f.CT.Key != "":
		return "ct " + f.CT.Key
	case f.Fib.Result != "":
		return "fib " + strings.Join(f.Fib.Flags, " . ") + " " + f.Fib.Result
	}
	return f.Meta.Key
}

// match reads a comparison, and returns it as a condition and as text.
func (t *nftTable) match(data json.RawMessage) (condition, string) {
	var m struct {
		Op          string
		Left, Right json.RawMessage
	}
	var left field
	if json.Unmarshal(data, &m) != nil || json.Unmarshal(m.Left, &left) != nil {
		return unknownCondition, "a condition"
	}
	values, _ := t.values(m.Right)
	negated := ""
	if m.Op == "!=" {
		negated = "!= "
	}
	text := strings.TrimPrefix(left.name(), "ct ") + " " + negated + strings.Join(values, ",")
	if m.Op != "==" && m.Op != "!=" && m.Op != "in" {
		return unknownCondition, text
	}
	c := t.compare(m.Left, m.Right)
	if m.Op == "!=" {
		c = c.not()
	}
	return c, text
}

// compare returns the condition that a field, or several joined, have one of some values.
func (t *nftTable) compare(left, right json.RawMessage) condition {
	var f field
	if json.Unmarshal(left, &f) != nil {
		return unknownCondition
	}
	switch {
	case f.Concat != nil:
		return t.joined(f.Concat, right)
	case len(f.And) == 2:
		return masked(f.And, right)
	}
	values, ok := t.values(right)
	if !ok {
		return unknownCondition
	}
	return nftCondition(f.name(), values)
}

// joined returns the condition that several fields have the values of one element.
func (t *nftTable) joined(fields []json.RawMessage, right json.RawMessage) condition {
	elements, ok := t.elements(right)
	if !ok {
		elements = []json.RawMessage{right}
	}
	var each []condition
	for _, e := range elements {
		var parts struct{ Concat []json.RawMessage }
		if json.Unmarshal(e, &parts) != nil || len(parts.Concat) != len(fields) {
			return unknownCondition
		}
		var all []condition
		for i, f := range fields {
			all = append(all, t.compare(f, parts.Concat[i]))
		}
		each = append(each, func(p Packet) answer { return every(all, p) })
	}
	return func(p Packet) answer {
		best := no
		for _, c := range each {
			switch c(p) {
			case yes:
				return yes
			case maybe:
				best = maybe
			}
		}
		return best
	}
}

// masked returns the condition that the bits of a mark have a value.
func masked(and []json.RawMessage, right json.RawMessage) condition {
	var f field
	var mask, value uint32
	if json.Unmarshal(and[0], &f) != nil || json.Unmarshal(and[1], &mask) != nil || json.Unmarshal(right, &value) != nil {
		return unknownCondition
	}
	c := marked(fmt.Sprintf("%d/%d", value, mask))
	switch f.name() {
	case "mark":
		return c
	case "ct mark": // a connection has none when it begins
		return c.of(Packet{MarkKnown: true})
	}
	return unknownCondition
}

// nftCondition returns the condition that a field of the packet has one of some values.
func nftCondition(left string, values []string) condition {
	switch left {
	case "iifname", "iif", "oifname", "oif":
		of := inOf
		if strings.HasPrefix(left, "o") {
			of = outOf
		}
		return func(p Packet) answer {
			return answerOf(slices.ContainsFunc(values, func(name string) bool { return device(of, name, "*")(p) == yes }))
		}
	case "l4proto", "ip protocol", "ip6 nexthdr":
		return protocol(values...)
	case "nfproto", "protocol":
		return func(p Packet) answer {
			family := cidr.FamilyOf(p.Dst)
			return answerOf(slices.ContainsFunc(values, func(v string) bool {
				return v == cidr.Pick(family, "ipv4", "ipv6") || v == cidr.Pick(family, "ip", "ip6")
			}))
		}
	case "ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr":
		return nftAddress(left, values)
	case "tcp dport", "udp dport", "th dport":
		return nftPort(left, values)
	case "ct state":
		return inState(values)
	case "ct status", "ct direction":
		return ofFirst(slices.Contains(values, "original"))
	case "mark":
		if len(values) == 1 {
			return marked(values[0])
		}
	case "ct mark":
		if len(values) == 1 {
			return marked(values[0]).of(Packet{MarkKnown: true})
		}
	case "fib daddr type":
		return ofType(dstType, values)
	case "fib saddr type":
		return ofType(srcType, values)
	case "icmp type", "icmpv6 type":
		return func(p Packet) answer {
			if is := protocol("icmp")(p); is != yes {
				return is
			}
			return answerOf(slices.Contains(values, "echo-request"))
		}
	}
	return unknownCondition
}

// nftAddress returns the condition that an address is one of some values.
func nftAddress(left string, values []string) condition {
	of := srcOf
	if strings.HasSuffix(left, "daddr") {
		of = dstOf
	}
	var among []addrRange
	for _, value := range values {
		r, ok := rangeOf(value)
		if !ok {
			return unknownCondition
		}
		among = append(among, r)
	}
	return within(of, among)
}

// nftPort returns the condition that a packet goes to one of some ports.
func nftPort(left string, values []string) condition {
	ranges, ok := portRanges(strings.Join(values, ","), "-")
	if !ok {
		return unknownCondition
	}
	named, _, _ := strings.Cut(left, " ")
	if named == "th" {
		return ports(ranges...)
	}
	return func(p Packet) answer { return every([]condition{protocol(named), ports(ranges...)}, p) }
}

// values returns the values of a comparison as text: one, those of a set, prefixes and ranges.
// It returns false for others.
func (t *nftTable) values(data json.RawMessage) ([]string, bool) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		if elements, named := t.elements(data); named {
			return t.valuesOf(elements)
		}
		return []string{text}, !strings.HasPrefix(text, "@")
	}
	var number json.Number
	if json.Unmarshal(data, &number) == nil {
		return []string{number.String()}, true
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil {
		return t.valuesOf(list)
	}
	var compound struct {
		Set    json.RawMessage
		Range  []json.RawMessage
		Prefix *struct {
			Addr string
			Len  int
		}
		Elem *struct{ Val json.RawMessage }
	}
	if json.Unmarshal(data, &compound) != nil {
		return nil, false
	}
	switch {
	case compound.Prefix != nil:
		return []string{fmt.Sprintf("%s/%d", compound.Prefix.Addr, compound.Prefix.Len)}, true
	case compound.Elem != nil:
		return t.values(compound.Elem.Val)
	case compound.Set != nil:
		return t.values(compound.Set)
	case len(compound.Range) == 2:
		first, ok := t.values(compound.Range[0])
		last, also := t.values(compound.Range[1])
		if ok && also && len(first) == 1 && len(last) == 1 {
			return []string{first[0] + "-" + last[0]}, true
		}
	}
	return nil, false
}

// valuesOf returns the values of a list.
func (t *nftTable) valuesOf(list []json.RawMessage) ([]string, bool) {
	var all []string
	for _, one := range list {
		if strings.HasPrefix(string(one), `"@`) {
			return nil, false // no set names another
		}
		values, ok := t.values(one)
		if !ok {
			return nil, false
		}
		all = append(all, values...)
	}
	return all, true
}
