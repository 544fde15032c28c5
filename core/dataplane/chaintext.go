package dataplane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// String returns the canonical form, such as
// "chain nftables ipv4 forward jump placed { from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }".
func (c Chain) String() string {
	s := fmt.Sprintf("chain %s jump %s {", c.ChainKey, c.Jump)
	if c.Rules != "" {
		s += " " + string(c.Rules)
	}
	s += " }"
	if c.Other != "" {
		s += otherMark + strconv.Quote(c.Other)
	}
	return s
}

// otherMark separates Other from the rest of a chain's line.
const otherMark = " other "

// String returns the canonical form, such as "nftables ipv4 forward".
func (k ChainKey) String() string {
	return fmt.Sprintf("%s %s %s", k.Flavour, strings.ToLower(k.Family.String()), k.Hook)
}

// MakeRules puts rules in order.
func MakeRules(rules ...Rule) Rules {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.String()
	}
	return Rules(strings.Join(texts, "; "))
}

// List returns the rules, in order. It fails for a value that neither
// MakeRules nor ParseRules returned.
func (r Rules) List() ([]Rule, error) {
	if r == "" {
		return nil, nil
	}
	var rules []Rule
	for _, text := range strings.Split(string(r), ";") {
		rule, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// ParseRules reads rules separated by semicolons.
func ParseRules(text string) (Rules, error) {
	rules, err := Rules(strings.TrimSpace(text)).List()
	return MakeRules(rules...), err
}

// String returns the canonical form, such as
// "from !10.5.0.0/16 to 10.5.1.0/24 return", "mark 0x4000/0x4000 return" or
// "of 10.5.0.0/16 udp 8472 from 192.168.64.2/32 return".
func (r Rule) String() string {
	var l line
	l.add(r.Network.IsValid(), "of %s", r.Network)
	l.add(r.In != "", "in %s", r.In)
	l.add(r.Proto == ProtoUDP, "udp %d", r.Port)
	l.add(r.Proto == ProtoIPIP, "ipip")
	l.add(r.Mark != (Mark{}), "mark %#x/%#x", r.Mark.Value, r.Mark.Mask)
	l.add(r.From.Prefix.IsValid(), "from %s", r.From)
	l.add(r.To.Prefix.IsValid(), "to %s", r.To)
	l.add(true, "%s", r.Verdict)
	return l.String()
}

// String returns the prefix, with a "!" before it for the addresses outside.
func (m Match) String() string {
	if m.Not {
		return "!" + m.Prefix.String()
	}
	return m.Prefix.String()
}

// ParseRule reads the canonical form of a rule.
func ParseRule(text string) (Rule, error) {
	f := &fields{words: strings.Fields(text)}
	r := f.rule()
	if f.err == nil && len(f.words) > 0 {
		f.fail("unexpected %q", f.words[0])
	}
	if f.err != nil {
		return Rule{}, fmt.Errorf("rule %q: %w", strings.TrimSpace(text), f.err)
	}
	return r, nil
}

func (f *fields) rule() Rule {
	var r Rule
	for f.err == nil {
		switch word := f.next(); word {
		case "of":
			r.Network = f.prefix()
		case "in":
			r.In = f.next()
		case "udp":
			r.Proto, r.Port = ProtoUDP, uint16(f.number(16))
		case "ipip":
			r.Proto = ProtoIPIP
		case "mark":
			r.Mark = f.mark(f.next())
		case "from":
			r.From = f.match()
		case "to":
			r.To = f.match()
		case string(Return), string(Accept), string(Drop), string(Masquerade), string(MasqueradeRandom):
			r.Verdict = Verdict(word)
			return r
		default:
			f.fail("unexpected %q", word)
		}
	}
	return r
}

func (f *fields) mark(text string) Mark {
	value, mask, both := strings.Cut(text, "/")
	v, errV := strconv.ParseUint(value, 0, 32)
	m, errM := strconv.ParseUint(mask, 0, 32)
	switch {
	case !both || errV != nil || errM != nil:
		f.fail("mark %q: want value/mask", text)
	case m == 0 || v&^m != 0:
		f.fail("mark %q: the mask does not cover the value", text)
	}
	return Mark{uint32(v), uint32(m)}
}

func (f *fields) match() Match {
	not := len(f.words) > 0 && strings.HasPrefix(f.words[0], "!")
	if not {
		f.words = slices.Clone(f.words)
		f.words[0] = f.words[0][1:]
	}
	return Match{Not: not, Prefix: f.prefix()}
}

func (Chain) kind() *kind { return &chainKind }

func (c Chain) mapKey() ChainKey { return c.ChainKey }

var chainKind = mapKind("chain", parseChain, func(s *State) *map[ChainKey]Chain { return &s.Chains })

// parseChain reads the words of a chain. Its last part is a quoted text, in
// which blanks count, so it works on the whole text.
func parseChain(f *fields) Object {
	var c Chain
	text, other, odd := strings.Cut(f.text, otherMark)
	head, rest, opened := strings.Cut(text, "{")
	rules, tail, closed := strings.Cut(rest, "}")
	f.words = strings.Fields(head)
	if !opened || !closed || strings.TrimSpace(tail) != "" {
		f.fail("want rules in braces, and nothing after them")
	}
	c.ChainKey = f.chainKey()
	c.Jump = oneOf(f, f.after("jump"), Placed, Moved, Missing)
	f.end()
	f.words = nil
	if f.err != nil {
		return c
	}
	c.Rules, f.err = ParseRules(rules)
	if odd && f.err == nil {
		c.Other = f.quoted(other)
	}
	return c
}

// quoted returns the text between quotes.
func (f *fields) quoted(s string) string {
	text, err := strconv.Unquote(strings.TrimSpace(s))
	if err != nil {
		f.fail("other %s: want a quoted text", s)
	}
	return text
}

func (f *fields) chainKey() ChainKey {
	k := ChainKey{Flavour: oneOf(f, f.next(), Flavours[:]...)}
	switch word := f.next(); word {
	case "ipv4":
		k.Family = cidr.V4
	case "ipv6":
		k.Family = cidr.V6
	default:
		f.fail("unexpected %q", word)
	}
	k.Hook = oneOf(f, f.next(), Hooks[:]...)
	return k
}

// oneOf returns the word, and fails unless it is one of the words listed.
func oneOf[T ~string](f *fields, word string, words ...T) T {
	if !slices.Contains(words, T(word)) {
		f.fail("unexpected %q", word)
	}
	return T(word)
}
