package trace

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseIPTables reads the table filter in the output of iptables-save. Name is the program.
func parseIPTables(name, out string) Filter {
	f := Filter{Name: name + ", table filter", Chains: map[string]*Chain{}}
	table := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "*") {
			table = line[1:]
		}
		if table != "filter" {
			continue
		}
		switch {
		case strings.HasPrefix(line, ":"):
			words := strings.Fields(line[1:])
			if len(words) < 2 {
				continue
			}
			c := &Chain{Drops: words[1] == "DROP"}
			switch words[0] {
			case "FORWARD", "INPUT", "OUTPUT":
				c.Hook = strings.ToLower(words[0])
			}
			f.Chains[words[0]] = c
		case strings.HasPrefix(line, "-A "):
			chain, spec, _ := strings.Cut(strings.TrimPrefix(line, "-A "), " ")
			if c := f.Chains[chain]; c != nil {
				c.Rules = append(c.Rules, iptablesRule(spec))
			}
		}
	}
	return f
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
	negated := false
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
			r.Verdict, r.Target = iptablesVerdict(option, value)
			return r // what follows are options of the target
		default:
			c := iptablesCondition(option, value)
			if negated {
				positive := c
				c = func(p packet) answer { return positive(p).not() }
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

func iptablesVerdict(option, target string) (verdict, string) {
	switch target {
	case "ACCEPT":
		return verdictAccept, ""
	case "DROP", "REJECT":
		return verdictDrop, ""
	case "RETURN":
		return verdictReturn, ""
	case "LOG", "NFLOG", "MARK", "CONNMARK", "TCPMSS", "TRACE", "CHECKSUM", "CT", "NOTRACK", "AUDIT", "SET":
		return verdictNone, ""
	case "QUEUE", "NFQUEUE", "SYNPROXY":
		return verdictUnknown, ""
	}
	if option == "-g" {
		return verdictGoto, target
	}
	return verdictJump, target
}

// iptablesCondition returns the condition of an option.
func iptablesCondition(option, value string) condition {
	switch option {
	case "-m", "--comment": // the options of a match follow it
		return func(packet) answer { return yes }
	case "-s", "-d":
		prefix, ok := prefixOf(value)
		if !ok {
			return unknownCondition
		}
		if option == "-s" {
			return within(srcOf, prefix)
		}
		return within(dstOf, prefix)
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
		return beginsFlow(strings.Split(value, ","))
	}
	return unknownCondition
}

// prefixOf reads a prefix, or an address as the prefix of that one.
func prefixOf(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, true
	}
	addr, err := netip.ParseAddr(text)
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil
}

// portRanges reads numbers and ranges of ports, separated by commas.
func portRanges(text, between string) ([][2]uint16, bool) {
	var ranges [][2]uint16
	for _, one := range strings.Split(text, ",") {
		first, last, is := strings.Cut(one, between)
		if !is {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, failed := strconv.ParseUint(last, 10, 16)
		if err != nil || failed != nil {
			return nil, false
		}
		ranges = append(ranges, [2]uint16{uint16(from), uint16(to)})
	}
	return ranges, true
}
