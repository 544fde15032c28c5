package firewall

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// iptRule is one line of iptables-save after "-A CHAIN".
type iptRule struct {
	spec    string // as read: the text that names the rule when deleting it
	comment string
	target  string
	rule    dataplane.Rule // if known
	known   bool           // all of the spec is in rule, comment and target
	bare    bool           // it matches every packet
}

// parseRule reads the specification of a rule.
func parseRule(spec string) iptRule {
	r := iptRule{spec: spec}
	p := iptParser{words: splitWords(spec)}
	r.known = true
	for len(p.words) > 0 && p.option(&r) {
	}
	r.known = r.known && !p.failed && len(p.words) == 0
	r.bare = r.rule == dataplane.Rule{Verdict: r.rule.Verdict} && !p.failed && (r.known || p.onlyTarget)
	return r
}

// iptParser reads words in order.
type iptParser struct {
	words      []string
	failed     bool
	onlyTarget bool // the unknown part stands after the target
}

func (p *iptParser) next() string {
	if len(p.words) == 0 {
		p.failed = true
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// option reads one option and returns false for one that it does not know.
func (p *iptParser) option(r *iptRule) bool {
	not := p.words[0] == "!"
	if not {
		p.next()
	}
	switch word := p.next(); {
	case word == "-s":
		r.rule.From = p.match(not)
	case word == "-d":
		r.rule.To = p.match(not)
	case not:
		r.known = false
	case word == "-i":
		r.rule.In = p.next()
	case word == "-p":
		r.rule.Proto = protocolNamed(p.next())
		r.known = r.rule.Proto != 0
	case word == "-m": // the matches' own options follow
		m := p.next()
		r.known = m == "mark" || m == "comment" || m == "udp" && r.rule.Proto == dataplane.ProtoUDP
	case word == "--dport" && r.rule.Proto == dataplane.ProtoUDP:
		r.rule.Port = p.port()
	case word == "--mark":
		r.rule.Mark = p.mark()
	case word == "--comment":
		r.comment = p.next()
	case word == "-j":
		r.target = p.next()
		r.rule.Verdict = verdictOf(r.target)
		p.onlyTarget = true
	case word == "--random-fully" && r.rule.Verdict == dataplane.Masquerade:
		r.rule.Verdict = dataplane.MasqueradeRandom
	default:
		r.known = false
	}
	return r.known
}

func (p *iptParser) match(not bool) dataplane.Match {
	prefix, err := netip.ParsePrefix(p.next())
	p.failed = p.failed || err != nil
	return dataplane.Match{Not: not, Prefix: prefix}
}

// port reads a single port: a range is not ours.
func (p *iptParser) port() uint16 {
	n, err := strconv.ParseUint(p.next(), 10, 16)
	p.failed = p.failed || err != nil
	return uint16(n)
}

// protocolNamed returns the protocol of our rules that iptables-save calls by that name, or 0. The host's
// /etc/protocols may name it.
func protocolNamed(name string) uint8 {
	switch name {
	case "udp", "17":
		return dataplane.ProtoUDP
	case "ipencap", "ipv4", "4":
		return dataplane.ProtoIPIP
	}
	return 0
}

func (p *iptParser) mark() dataplane.Mark {
	value, mask, both := strings.Cut(p.next(), "/")
	v, err := strconv.ParseUint(value, 0, 32)
	m := uint64(1<<32 - 1)
	if both && err == nil {
		m, err = strconv.ParseUint(mask, 0, 32)
	}
	p.failed = p.failed || err != nil || v&^m != 0 || m == 0
	return dataplane.Mark{Value: uint32(v), Mask: uint32(m)}
}

// verdictOf returns the verdict for an iptables target, empty for targets that
// our rules do not have.
func verdictOf(target string) dataplane.Verdict {
	switch target {
	case "RETURN":
		return dataplane.Return
	case "ACCEPT":
		return dataplane.Accept
	case "DROP":
		return dataplane.Drop
	case "MASQUERADE":
		return dataplane.Masquerade
	}
	return ""
}

// splitWords splits a line as iptables-restore does: at spaces, but not
// within double quotes, in which a backslash guards the next character.
func splitWords(line string) []string {
	var words []string
	var word strings.Builder
	quoted, inWord := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, inWord = !quoted, true
		case c == '\\' && quoted && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

// specOf writes one of our rules as iptables-save does (interop 7.1).
func specOf(r dataplane.Rule, comment string) (string, error) {
	var b strings.Builder
	for _, a := range []struct {
		option string
		match  dataplane.Match
	}{{"-s", r.From}, {"-d", r.To}} {
		if !a.match.Prefix.IsValid() {
			continue
		}
		if a.match.Not {
			b.WriteString("! ")
		}
		fmt.Fprintf(&b, "%s %s ", a.option, a.match.Prefix)
	}
	if r.In != "" {
		fmt.Fprintf(&b, "-i %s ", r.In)
	}
	b.WriteString(protocolSpec(r))
	if r.Network.IsValid() {
		comment += " " + r.Network.String()
	}
	if r.Mark != (dataplane.Mark{}) {
		fmt.Fprintf(&b, "-m mark --mark %#x/%#x ", r.Mark.Value, r.Mark.Mask)
	}
	target, ok := map[dataplane.Verdict]string{
		dataplane.Return: "RETURN", dataplane.Accept: "ACCEPT", dataplane.Drop: "DROP",
		dataplane.Masquerade: "MASQUERADE", dataplane.MasqueradeRandom: "MASQUERADE --random-fully",
	}[r.Verdict]
	if !ok {
		return "", fmt.Errorf("no verdict %q in iptables", r.Verdict)
	}
	fmt.Fprintf(&b, "-m comment --comment %q -j %s", comment, target)
	return b.String(), nil
}

// protocolSpec writes the part of a rule that selects packets by protocol and port.
func protocolSpec(r dataplane.Rule) string {
	switch r.Proto {
	case dataplane.ProtoUDP:
		return fmt.Sprintf("-p udp -m udp --dport %d ", r.Port)
	case dataplane.ProtoIPIP:
		return fmt.Sprintf("-p %d ", r.Proto)
	}
	return ""
}

// jumpSpec writes the rule that leads packets of a kind from the shared chain to ours.
func jumpSpec(p place, kind dataplane.Rule) string {
	return fmt.Sprintf("%s-m comment --comment %q -j %s", protocolSpec(kind), p.comment, p.own)
}

// multicast returns the groups of a family, which rule 5 exempts (interop 7).
func multicast(f cidr.Family) netip.Prefix {
	if f == cidr.V4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{224}), 4)
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xff}), 8)
}
