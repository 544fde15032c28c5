package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The hooks of the packet filter that a packet passes.
const (
	hookForward = "forward"
	hookInput   = "input"
	hookOutput  = "output"
)

// Filter is a table of the packet filter: chains that may jump to each other.
type Filter struct {
	Name   string // such as "iptables-nft, table filter"
	Chains map[string]*Chain
}

// Chain is a list of rules. One at a hook has that hook's name, and a policy.
type Chain struct {
	Hook  string // "" for a chain that rules jump to
	Drops bool   // its policy
	Rules []Rule
}

// Rule does something to the packets that meet all its conditions.
type Rule struct {
	Text       string
	Conditions []condition
	Verdict    verdict
	Target     string // of verdictJump and verdictGoto
}

// verdict is the effect of a rule.
type verdict uint8

const (
	verdictNone verdict = iota // it counts or logs packets
	verdictAccept
	verdictDrop
	verdictReturn
	verdictJump
	verdictGoto
	verdictUnknown // flannelctl cannot say
)

// answer is a truth value, or that it is not known.
type answer uint8

const (
	no answer = iota
	yes
	maybe
)

func answerOf(is bool) answer {
	if is {
		return yes
	}
	return no
}

func (a answer) not() answer {
	switch a {
	case no:
		return yes
	case yes:
		return no
	}
	return maybe
}

// condition says whether a rule selects a packet.
type condition func(packet) answer

// packet is the first packet of a flow, as a filter sees it.
type packet struct {
	src, dst netip.Addr
	in, out  string // devices; "" for none
	proto    string // "tcp", "udp", "icmp", or another protocol by name; "": not known
	port     uint16 // of the destination; 0: not known, or none
}

// judgement says what the filters of a host do to a packet at a hook.
type judgement struct {
	drops string // the rule or policy that drops it; "": none does for certain
	// accepted names a rule before that, which may accept the packet. flannelctl cannot say.
	accepted string
	mayDrop  []string // rules that may drop it
}

// judge sends a packet through all chains at a hook. A packet that one chain accepts goes on
// to the next.
func judge(filters []Filter, hook string, p packet) judgement {
	var j judgement
	for _, f := range filters {
		for _, name := range f.atHook(hook) {
			c := f.Chains[name]
			j.accepted = "" // by an earlier chain: this one decides again
			end := j.walk(f, name, p, 0)
			if end == verdictDrop {
				return j
			}
			if end == verdictNone && c.Drops {
				j.drops = fmt.Sprintf("the policy of chain %s (%s)", name, f.Name)
				return j
			}
		}
	}
	return j
}

// atHook returns the names of the chains at a hook, in a fixed order.
func (f Filter) atHook(hook string) []string {
	var names []string
	for name, c := range f.Chains {
		if c.Hook == hook {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// deepest bounds the jumps of a packet, as the kernel does.
const deepest = 16

// walk sends the packet through a chain. It returns verdictAccept, verdictDrop, or verdictNone
// if the packet leaves by the chain's end. A rule that may or may not select the packet is
// noted, and the packet goes on.
func (j *judgement) walk(f Filter, name string, p packet, depth int) verdict {
	c := f.Chains[name]
	if c == nil || depth > deepest {
		return verdictNone
	}
	for i, r := range c.Rules {
		selects := r.selects(p)
		where := fmt.Sprintf("rule %d of chain %s (%s): %s", i+1, name, f.Name, r.Text)
		if selects == no || r.Verdict == verdictNone {
			continue
		}
		if selects == maybe || r.Verdict == verdictUnknown {
			j.doubt(f, r, where, p, depth)
			continue
		}
		switch r.Verdict {
		case verdictAccept:
			return verdictAccept
		case verdictDrop:
			j.drops = where
			return verdictDrop
		case verdictReturn:
			return verdictNone
		}
		end := j.walk(f, r.Target, p, depth+1)
		if end != verdictNone || r.Verdict == verdictGoto {
			return end
		}
	}
	return verdictNone
}

// doubt notes what a rule does to the packet if it selects it.
func (j *judgement) doubt(f Filter, r Rule, where string, p packet, depth int) {
	switch r.Verdict {
	case verdictAccept:
		j.accepted = where
	case verdictDrop, verdictUnknown:
		j.mayDrop = append(j.mayDrop, where)
	case verdictJump, verdictGoto:
		var inside judgement
		switch inside.walk(f, r.Target, p, depth+1) {
		case verdictAccept:
			j.accepted = where
		case verdictDrop:
			j.mayDrop = append(j.mayDrop, inside.drops)
		}
		j.mayDrop = append(j.mayDrop, inside.mayDrop...)
	}
}

// selects reports whether a rule selects a packet.
func (r Rule) selects(p packet) answer {
	all := yes
	for _, c := range r.Conditions {
		switch c(p) {
		case no:
			return no
		case maybe:
			all = maybe
		}
	}
	return all
}

// unknownCondition is one that flannelctl does not know.
func unknownCondition(packet) answer { return maybe }

// within returns the condition that an address lies in one of some prefixes.
func within(of func(packet) netip.Addr, prefixes ...netip.Prefix) condition {
	return func(p packet) answer {
		a := of(p)
		return answerOf(slices.ContainsFunc(prefixes, func(x netip.Prefix) bool { return x.Contains(a) }))
	}
}

func srcOf(p packet) netip.Addr { return p.src }
func dstOf(p packet) netip.Addr { return p.dst }

// device returns the condition that a packet comes or goes by a device, whose name may end
// with a wildcard.
func device(of func(packet) string, name, wildcard string) condition {
	return func(p packet) answer {
		if start, open := strings.CutSuffix(name, wildcard); open {
			return answerOf(strings.HasPrefix(of(p), start))
		}
		return answerOf(of(p) == name)
	}
}

func inOf(p packet) string  { return p.in }
func outOf(p packet) string { return p.out }

// protocol returns the condition that a packet is of one of some protocols.
func protocol(names ...string) condition {
	return func(p packet) answer {
		if p.proto == "" {
			return maybe
		}
		return answerOf(slices.ContainsFunc(names, func(n string) bool { return protocolName(n) == p.proto }))
	}
}

// protocolName returns the one name of a protocol that rules name in several ways.
func protocolName(name string) string {
	switch name {
	case "ipv6-icmp", "icmpv6", "58", "1":
		return "icmp"
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "4", "ipip":
		return "ipencap"
	case "50":
		return "esp"
	}
	return name
}

// ports returns the condition that a packet goes to a port between two.
func ports(ranges ...[2]uint16) condition {
	return func(p packet) answer {
		if p.port == 0 {
			return maybe
		}
		return answerOf(slices.ContainsFunc(ranges, func(r [2]uint16) bool { return r[0] <= p.port && p.port <= r[1] }))
	}
}

// beginsFlow returns the condition that the first packet of a flow has one of some states.
func beginsFlow(states []string) condition {
	is := slices.ContainsFunc(states, func(s string) bool { return strings.EqualFold(s, "new") })
	return func(packet) answer { return answerOf(is) }
}
