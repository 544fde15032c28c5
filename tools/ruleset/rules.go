package ruleset

import (
	"cmp"
	"fmt"
	"slices"
)

// Hook is a place on a packet's way at which chains see it.
type Hook string

// The hooks of the packets of a family, and those of a device.
const (
	Ingress     Hook = "ingress"
	Prerouting  Hook = "prerouting"
	Input       Hook = "input"
	Forward     Hook = "forward"
	Output      Hook = "output"
	Postrouting Hook = "postrouting"
	Egress      Hook = "egress"
)

// Tables are those of all programs on a host for the packets of one family.
type Tables []Table

// Table is a table of the packet filter: chains that may jump to each other.
type Table struct {
	Name   string // such as "iptables-nft, table filter"
	Chains map[string]*Chain
}

// Chain is a list of rules. One at a hook has a policy and a priority.
type Chain struct {
	Hook     Hook // "" for a chain that rules jump to
	Priority int  // chains of a lower one see a packet first
	Device   string
	NAT      bool // its rules may change addresses
	Drops    bool // its policy
	Rules    []Rule
}

// Rule does something to the packets that meet all its conditions.
type Rule struct {
	Text       string
	Conditions []condition
	Verdict    verdict
	Target     string        // of verdictJump and verdictGoto
	change     func(*Packet) // what it changes; nil: nothing that a later step depends on
	choices    []choice      // of verdictMap, in order
}

// choice is an element of a map with verdicts.
type choice struct {
	key     condition
	verdict verdict
	target  string
}

// verdict is the effect of a rule.
type verdict uint8

const (
	verdictNone verdict = iota // it counts, logs or marks packets
	verdictAccept
	verdictDrop
	verdictReturn
	verdictJump
	verdictGoto
	verdictNAT     // it changes an address, and accepts
	verdictMap     // one of its choices
	verdictUnknown // it is not known
)

// Judgement is the effect of all chains at a hook on a packet.
type Judgement struct {
	Drops string // the rule or policy that drops it; "": none does for certain
	// Accepted names a rule before that, which may accept the packet: it is not known whether it selects it.
	Accepted string
	Doubts   []string // rules that may drop or change it
	Changes  []string // rules that change its addresses
	Packet   Packet   // as it leaves the hook
}

// Judge sends a packet through all chains at a hook, in the kernel's order. A packet that one chain accepts goes on
// to the next.
func (t Tables) Judge(hook Hook, p Packet) Judgement {
	j := Judgement{Packet: p}
	for _, at := range t.atHook(hook, p) {
		j.Accepted = "" // by an earlier chain: this one decides again
		chain := at.table.Chains[at.name]
		if chain.NAT && (len(j.Changes) > 0 || p.Established) {
			continue // the first packet of a connection meets them, and changes its addresses once at a hook
		}
		end := j.walk(at.table, at.name, 0)
		if end == verdictDrop {
			return j
		}
		if end == verdictNone && chain.Drops {
			j.Drops = fmt.Sprintf("the policy of chain %s (%s)", at.name, at.table.Name)
			return j
		}
	}
	return j
}

// place is a chain at a hook.
type place struct {
	table Table
	name  string
}

// atHook returns the chains at a hook that see a packet, in the kernel's order.
func (t Tables) atHook(hook Hook, p Packet) []place {
	var all []place
	for _, table := range t {
		for name, c := range table.Chains {
			device := p.In
			if hook == Egress {
				device = p.Out
			}
			if c.Hook == hook && (c.Device == "" || c.Device == device) {
				all = append(all, place{table, name})
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		before := cmp.Compare(a.table.Chains[a.name].Priority, b.table.Chains[b.name].Priority)
		return cmp.Or(before, cmp.Compare(a.table.Name, b.table.Name), cmp.Compare(a.name, b.name))
	})
	return all
}

// deepest bounds the jumps of a packet, as the kernel does.
const deepest = 16

// walk sends the packet through a chain. It returns verdictAccept, verdictDrop, or verdictNone
// if the packet leaves by the chain's end. A rule that may or may not select the packet is
// noted, and the packet goes on.
func (j *Judgement) walk(t Table, name string, depth int) verdict {
	c := t.Chains[name]
	if c == nil || depth > deepest {
		return verdictNone
	}
	for i, r := range c.Rules {
		selects := r.selects(j.Packet)
		if selects == no {
			continue
		}
		where := fmt.Sprintf("rule %d of chain %s (%s): %s", i+1, name, t.Name, r.Text)
		if r.Verdict == verdictMap {
			chosen, of := r.choose(j.Packet)
			r.Verdict, r.Target = chosen.verdict, chosen.target
			if of == maybe {
				selects = maybe
			}
		}
		if selects == maybe || r.Verdict == verdictUnknown {
			j.doubt(t, r, where, depth)
			continue
		}
		if r.change != nil {
			r.change(&j.Packet)
		}
		switch r.Verdict {
		case verdictNone:
			continue
		case verdictNAT:
			j.Changes = append(j.Changes, where)
			return verdictAccept
		case verdictDrop:
			j.Drops = where
			return verdictDrop
		case verdictAccept:
			return verdictAccept
		case verdictReturn:
			return verdictNone
		}
		end := j.walk(t, r.Target, depth+1)
		if end != verdictNone || r.Verdict == verdictGoto {
			return end
		}
	}
	return verdictNone
}

// choose returns what a map has for a packet, and whether that is known.
func (r Rule) choose(p Packet) (choice, answer) {
	for _, c := range r.choices {
		switch c.key(p) {
		case yes:
			return c, yes
		case maybe:
			return choice{verdict: verdictUnknown}, maybe
		}
	}
	return choice{}, yes
}

// doubt notes what a rule does to the packet if it selects it.
func (j *Judgement) doubt(t Table, r Rule, where string, depth int) {
	switch r.Verdict {
	case verdictNone:
		if r.change != nil {
			j.Packet.MarkKnown = false
		}
	case verdictAccept:
		j.Accepted = where
	case verdictDrop, verdictUnknown, verdictNAT:
		j.Doubts = append(j.Doubts, where)
	case verdictJump, verdictGoto:
		inside := Judgement{Packet: j.Packet}
		switch inside.walk(t, r.Target, depth+1) {
		case verdictAccept:
			j.Accepted = where
		case verdictDrop:
			j.Doubts = append(j.Doubts, inside.Drops)
		}
		j.Doubts = append(append(j.Doubts, inside.Doubts...), inside.Changes...)
		j.Packet.MarkKnown = j.Packet.MarkKnown && inside.Packet.MarkKnown && inside.Packet.Mark == j.Packet.Mark
	}
}

// selects reports whether a rule selects a packet.
func (r Rule) selects(p Packet) answer { return every(r.Conditions, p) }

// every returns the answer to all of some conditions.
func every(conditions []condition, p Packet) answer {
	all := yes
	for _, c := range conditions {
		switch c(p) {
		case no:
			return no
		case maybe:
			all = maybe
		}
	}
	return all
}
