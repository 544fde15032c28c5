package ruleset

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// priorities are those of the chains of iptables, by table.
var priorities = map[string]int{"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}

// sourcePriority is that of the chains of the table nat at the hooks input and postrouting, which change sources.
const sourcePriority = 100

// IPTables reads the output of iptables-save. Name is the program.
func IPTables(name, out string) Tables {
	var all Tables
	var t Table
	table := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
			t = Table{Name: name + ", table " + table, Chains: map[string]*Chain{}}
			all = append(all, t)
		case t.Chains == nil:
			continue
		case strings.HasPrefix(line, ":"):
			if words := strings.Fields(line[1:]); len(words) > 1 {
				t.Chains[words[0]] = iptablesChain(table, words[0], words[1])
			}
		case strings.HasPrefix(line, "-A "):
			chain, spec, _ := strings.Cut(strings.TrimPrefix(line, "-A "), " ")
			if c := t.Chains[chain]; c != nil {
				c.Rules = append(c.Rules, iptablesRule(spec))
			}
		}
	}
	for _, t := range all {
		t.findTargets()
	}
	return all
}

// iptablesChain returns a chain of a table without its rules.
func iptablesChain(table, name, policy string) *Chain {
	c := &Chain{Drops: policy == "DROP"}
	hooks := []Hook{Prerouting, Input, Forward, Output, Postrouting}
	if hook := Hook(strings.ToLower(name)); name == strings.ToUpper(name) && slices.Contains(hooks, hook) {
		c.Hook, c.NAT = hook, table == "nat"
		c.Priority = priorities[table]
		if c.NAT && (hook == Input || hook == Postrouting) {
			c.Priority = sourcePriority
		}
	}
	return c
}

// findTargets marks the rules whose target is neither a chain of the table nor a target that this package knows.
func (t Table) findTargets() {
	for _, c := range t.Chains {
		for i, r := range c.Rules {
			if (r.Verdict == verdictJump || r.Verdict == verdictGoto) && t.Chains[r.Target] == nil {
				c.Rules[i].Verdict = verdictUnknown
			}
		}
	}
}

// quoted splits a rule of iptables-save into words. A text in quotes is one word.
func quoted(spec string) []string {
	var words []string
	var word strings.Builder
	inside, escaped := false, false
	for _, r := range spec {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			inside = !inside
		case r == ' ' && !inside:
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// iptablesRule reads one rule. An option that it does not know makes the rule one whose
// packets are not known.
func iptablesRule(spec string) Rule {
	r := Rule{Text: spec}
	words := quoted(spec)
	negated, match := false, ""
	for i := 0; i < len(words); i++ {
		option := words[i]
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch option {
		case "!":
			negated = true
			continue
		case "-j", "-g":
			r.setTarget(option, value, words[min(i+2, len(words)):])
			return r
		default:
			c := iptablesCondition(option, value)
			switch {
			case option == "-m":
				match = value
			case option == "--mark" && match == "connmark": // a connection has none when it begins
				c = marked(value).of(Packet{MarkKnown: true})
			}
			if negated {
				c = c.not()
			}
			r.Conditions = append(r.Conditions, c)
		}
		negated = false
		if strings.HasPrefix(option, "-") && !strings.HasPrefix(value, "-") && value != "!" {
			i++ // past the value
		}
	}
	return r
}

// targets are those that decide, and those that change nothing on which a later step depends. Others are chains.
var targets = map[string]verdict{
	"ACCEPT": verdictAccept, "DROP": verdictDrop, "REJECT": verdictDrop, "RETURN": verdictReturn,
	"LOG": verdictNone, "NFLOG": verdictNone, "ULOG": verdictNone, "MARK": verdictNone, "CONNMARK": verdictNone,
	"TCPMSS": verdictNone, "TRACE": verdictNone, "CHECKSUM": verdictNone, "CT": verdictNone, "NOTRACK": verdictNone,
	"AUDIT": verdictNone, "SET": verdictNone, "CLASSIFY": verdictNone, "DSCP": verdictNone, "TOS": verdictNone,
	"TTL": verdictNone, "HL": verdictNone, "SECMARK": verdictNone, "CONNSECMARK": verdictNone, "RATEEST": verdictNone,
	"MASQUERADE": verdictNAT, "SNAT": verdictNAT, "DNAT": verdictNAT, "REDIRECT": verdictNAT, "NETMAP": verdictNAT,
}

// setTarget reads the target of a rule, and the options that follow it.
func (r *Rule) setTarget(option, target string, options []string) {
	known, is := targets[target]
	switch {
	case option == "-g":
		r.Verdict, r.Target = verdictGoto, target
	case !is:
		r.Verdict, r.Target = verdictJump, target // findTargets finds those that are no chains
	default:
		r.Verdict = known
	}
	switch {
	case target == "TTL" || target == "HL":
		if endsEarly(options) {
			r.Verdict = verdictUnknown
		}
	case target == "NOTRACK", target == "CT" && slices.Contains(options, "--notrack"):
		r.change = func(p *Packet) { p.Untracked = true }
	case target == "MARK":
		r.change = iptablesMark(options)
	case target == "DNAT":
		r.change = destination(valueOf(options, "--to-destination"))
	case target == "REDIRECT":
		r.change = destination("") // an address of the device by which the packet came
	}
}

// fewHops is a number of hops that may be too small for the way to another node's pod.
const fewHops = 8

// endsEarly reports whether the options of TTL or HL leave a packet so few hops that a host on its way may drop it.
func endsEarly(options []string) bool {
	for _, name := range []string{"--ttl-set", "--hl-set"} {
		if hops, err := strconv.Atoi(valueOf(options, name)); err == nil {
			return hops < fewHops
		}
	}
	return valueOf(options, "--ttl-dec") != "" || valueOf(options, "--hl-dec") != ""
}

// valueOf returns the word after an option.
func valueOf(words []string, option string) string {
	if i := slices.Index(words, option); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

// iptablesMark returns the change of a packet's mark by the target MARK.
func iptablesMark(options []string) func(*Packet) {
	forget := func(p *Packet) { p.MarkKnown = false }
	if len(options) < 2 {
		return forget
	}
	value, mask, ok := maskedValue(options[1])
	if !ok {
		return forget
	}
	switch options[0] {
	case "--set-xmark":
		return func(p *Packet) { p.Mark = p.Mark&^mask ^ value }
	case "--set-mark":
		return func(p *Packet) { p.Mark = p.Mark&^(mask|value) | value }
	case "--or-mark":
		return func(p *Packet) { p.Mark |= value }
	case "--and-mark":
		return func(p *Packet) { p.Mark &= value }
	}
	return forget
}

// destination returns the change of a packet's destination: ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func destination(text string) func(*Packet) {
	to, err := netip.ParseAddr(text)
	if err != nil {
		with, _ := netip.ParseAddrPort(text) // neither: the destination is not known any more
		to = with.Addr()
	}
	return func(p *Packet) { p.Dst, p.DstType = to, "" }
}

// iptablesCondition returns the condition of an option.
func iptablesCondition(option, value string) condition {
	switch option {
	case "-m", "--comment", "--reject-with": // the options of a match follow it
		return always
	case "-s", "-d":
		among, ok := rangeOf(value)
		if !ok {
			return unknownCondition
		}
		if option == "-s" {
			return within(srcOf, []addrRange{among})
		}
		return within(dstOf, []addrRange{among})
	case "-i":
		return device(inOf, value, "+")
	case "-o":
		return device(outOf, value, "+")
	case "-p":
		return protocol(value)
	case "--dport", "--dports":
		if ranges, ok := portRanges(value, ":"); ok {
			return ports(ranges...)
		}
	case "--ctstate", "--state":
		return inState(strings.Split(value, ","))
	case "--ctstatus":
		return ofFirst(false)
	case "--physdev-is-bridged", "-f": // no packet that is routed, and no fragment
		return never
	case "--syn":
		return protocol("tcp")
	case "--icmp-type", "--icmpv6-type":
		return answerIs(value == "8" || value == "128" || value == "any" || value == "255")
	case "--mark":
		return marked(value)
	case "--src-type":
		return ofType(srcType, strings.Split(value, ","))
	case "--dst-type":
		return ofType(dstType, strings.Split(value, ","))
	case "--src-range", "--dst-range":
		if among, ok := rangeOf(value); ok {
			return within(map[bool]func(Packet) netip.Addr{true: srcOf, false: dstOf}[option == "--src-range"],
				[]addrRange{among})
		}
	}
	return unknownCondition
}

// answerIs returns a condition that does not depend on the packet.
func answerIs(is bool) condition { return func(Packet) answer { return answerOf(is) } }
