package ruleset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// nftObject is one member of the list that nft -j prints.
type nftObject struct {
	Chain *struct {
		Family, Table, Name, Hook, Policy, Type string
		Prio                                    int
		Dev                                     json.RawMessage // a name, or a list of them
	}
	Set, Map *struct {
		Family, Table, Name string
		Elem                []json.RawMessage
	}
	Rule *struct {
		Family, Table, Chain string
		Expr                 []map[string]json.RawMessage
	}
}

// nftReader collects the tables for the packets of one family.
type nftReader struct {
	family   cidr.Family
	iptables func(table string) bool
	tables   map[string]*nftTable
	names    []string
}

// nftTable is a table with its named sets and maps.
type nftTable struct {
	Table
	sets map[string][]json.RawMessage
}

// NFT reads what nft -j list ruleset prints, for the packets of one family. The
// tables for which iptables is true are left out.
func NFT(family cidr.Family, out []byte, iptables func(table string) bool) (Tables, error) {
	var ruleset struct{ NFTables []nftObject }
	if err := json.Unmarshal(out, &ruleset); err != nil {
		return nil, fmt.Errorf("read the rules of nftables: %w", err)
	}
	r := &nftReader{family: family, iptables: iptables, tables: map[string]*nftTable{}}
	for _, o := range ruleset.NFTables { // a rule may name a set that the list has later
		for _, set := range []*struct {
			Family, Table, Name string
			Elem                []json.RawMessage
		}{o.Set, o.Map} {
			if set != nil && r.sees(set.Family, set.Table) {
				r.table(set.Family, set.Table).sets[set.Name] = set.Elem
			}
		}
	}
	for _, o := range ruleset.NFTables {
		switch {
		case o.Chain != nil && r.sees(o.Chain.Family, o.Chain.Table):
			c := o.Chain
			r.table(c.Family, c.Table).Chains[c.Name] = &Chain{Hook: Hook(c.Hook), Priority: c.Prio, NAT: c.Type == "nat",
				Drops: c.Policy == "drop", Device: firstDevice(c.Dev)}
		case o.Rule != nil && r.sees(o.Rule.Family, o.Rule.Table):
			t := r.table(o.Rule.Family, o.Rule.Table)
			if c := t.Chains[o.Rule.Chain]; c != nil {
				c.Rules = append(c.Rules, t.rule(o.Rule.Expr))
			}
		}
	}
	var all Tables
	for _, name := range r.names {
		all = append(all, r.tables[name].Table)
	}
	return all, nil
}

// Bridges names the tables of the family bridge, such as those of ebtables, whose rules or policies may drop frames.
func Bridges(out []byte) []string {
	var ruleset struct{ NFTables []nftObject }
	if json.Unmarshal(out, &ruleset) != nil {
		return nil // NFT has the error
	}
	var names []string
	for _, o := range ruleset.NFTables {
		name := ""
		switch {
		case o.Chain != nil && o.Chain.Family == "bridge" && o.Chain.Policy == "drop":
			name = o.Chain.Table
		case o.Rule != nil && o.Rule.Family == "bridge" && drops(o.Rule.Expr):
			name = o.Rule.Table
		}
		if text := "the rules of the table bridge " + name; name != "" && !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return names
}

// drops reports whether a rule may drop what it selects.
func drops(exprs []map[string]json.RawMessage) bool {
	for _, e := range exprs {
		for name := range e {
			switch name {
			case "drop", "reject", "xt", "vmap":
				return true
			}
		}
	}
	return false
}

// firstDevice returns the device of a chain; empty: it is for each, or for several.
func firstDevice(data json.RawMessage) string {
	var name string
	if json.Unmarshal(data, &name) != nil {
		return "" // absent, or a list
	}
	return name
}

// sees reports whether packets of the family pass a table.
func (r *nftReader) sees(of, name string) bool {
	own := cidr.Pick(r.family, "ip", "ip6")
	return of == "inet" || of == "netdev" || of == own && !r.iptables(name)
}

func (r *nftReader) table(of, name string) *nftTable {
	full := "nftables, table " + of + " " + name
	if r.tables[full] == nil {
		r.tables[full] = &nftTable{Table{Name: full, Chains: map[string]*Chain{}}, map[string][]json.RawMessage{}}
		r.names = append(r.names, full)
	}
	return r.tables[full]
}

// effects are the effects of statements.
var effects = map[string]verdict{
	"accept": verdictAccept, "drop": verdictDrop, "reject": verdictDrop, "return": verdictReturn,
	"jump": verdictJump, "goto": verdictGoto, "vmap": verdictMap,
	"snat": verdictNAT, "dnat": verdictNAT, "masquerade": verdictNAT, "redirect": verdictNAT,
}

// without are statements without effect on what happens to the packet.
var without = []string{"counter", "log", "comment", "quota", "set", "flow", "ct helper", "xt"}

// rule reads one rule. An expression that is not known makes the rule one whose
// packets are not known.
func (t *nftTable) rule(exprs []map[string]json.RawMessage) Rule {
	var r Rule
	var words []string
	rewrites := false
	for _, e := range exprs {
		for name, data := range e {
			verdict, known := effects[name]
			switch {
			case name == "match":
				c, text := t.match(data)
				r.Conditions = append(r.Conditions, c)
				words = append(words, text)
				continue
			case name == "xt": // of iptables-nft: a match or a target, shown without its values
				r.Verdict = verdictUnknown
			case slices.Contains(without, name):
				continue
			case name == "limit" || name == "meter":
				r.Conditions = append(r.Conditions, unknownCondition)
			case name == "notrack":
				r.change = func(p *Packet) { p.Untracked = true }
			case name == "mangle":
				r.change = nftMangle(data)
				if field := rewritten(data); field != "" {
					rewrites, name = true, field+" set"
				}
			case name == "vmap":
				r.Verdict, r.choices = verdict, t.choicesOf(data)
			case known:
				r.Verdict = verdict
				r.Target = targetOf(data)
				switch name {
				case "dnat":
					r.change = nftDestination(data)
				case "redirect":
					r.change = destination("")
				}
			default:
				r.Verdict = verdictUnknown
			}
			words = append(words, strings.TrimSpace(name+" "+r.Target))
		}
	}
	r.Text = strings.Join(words, " ")
	if rewrites && r.Verdict != verdictDrop {
		r.Verdict = verdictUnknown // where the packet goes then
	}
	return r
}

// targetOf returns the chain that a jump or goto names.
func targetOf(data json.RawMessage) string {
	var to struct{ Target string }
	if json.Unmarshal(data, &to) != nil {
		return "" // without a target no chain is entered
	}
	return to.Target
}

// nftMangle returns the change of a packet's mark; nil: it changes something else.
func nftMangle(data json.RawMessage) func(*Packet) {
	var m struct {
		Key   struct{ Meta struct{ Key string } }
		Value json.RawMessage
	}
	if json.Unmarshal(data, &m) == nil && m.Key.Meta.Key != "mark" {
		return nil
	}
	var mark uint32
	if json.Unmarshal(m.Value, &mark) == nil {
		return func(p *Packet) { p.Mark, p.MarkKnown = mark, true }
	}
	return func(p *Packet) { p.MarkKnown = false }
}

// rewritten returns the field of the packet that a statement changes, if the packet may end elsewhere for it; empty:
// none.
func rewritten(data json.RawMessage) string {
	var m struct {
		Key struct {
			Payload *struct{ Protocol, Field string }
		}
		Value json.RawMessage
	}
	if json.Unmarshal(data, &m) != nil || m.Key.Payload == nil {
		return ""
	}
	field := m.Key.Payload.Field
	var value int
	number := json.Unmarshal(m.Value, &value) == nil
	switch {
	case field == "dscp" || field == "ecn" || field == "flowlabel":
		return ""
	case (field == "ttl" || field == "hoplimit") && number && value >= fewHops:
		return ""
	}
	if field == "" {
		return "mangle" // a part without a name
	}
	return m.Key.Payload.Protocol + " " + field
}

// nftDestination returns the change of a packet's destination.
func nftDestination(data json.RawMessage) func(*Packet) {
	var to struct{ Addr string }
	if json.Unmarshal(data, &to) != nil {
		to.Addr = "" // a map, or an address with a port
	}
	return destination(to.Addr)
}

// choicesOf reads a map with verdicts, inline or by name. What cannot be read makes one unknown choice.
func (t *nftTable) choicesOf(data json.RawMessage) []choice {
	unknown := []choice{{unknownCondition, verdictUnknown, ""}}
	var m struct {
		Key  json.RawMessage
		Data json.RawMessage
	}
	if json.Unmarshal(data, &m) != nil {
		return unknown
	}
	elements, ok := t.elements(m.Data)
	if !ok {
		return unknown
	}
	var all []choice
	for _, e := range elements {
		var pair []json.RawMessage
		if json.Unmarshal(e, &pair) != nil || len(pair) != 2 {
			return unknown
		}
		var does map[string]json.RawMessage
		if json.Unmarshal(pair[1], &does) != nil {
			return unknown
		}
		for name, data := range does {
			c := choice{t.compare(m.Key, pair[0]), verdictUnknown, targetOf(data)}
			if v, known := effects[name]; known {
				c.verdict = v
			}
			all = append(all, c)
		}
	}
	return all
}

// elements returns those of a set or map, inline or by name.
func (t *nftTable) elements(data json.RawMessage) ([]json.RawMessage, bool) {
	var name string
	if json.Unmarshal(data, &name) == nil {
		named, is := strings.CutPrefix(name, "@")
		found, ok := t.sets[named]
		return found, is && ok
	}
	var inline struct{ Set []json.RawMessage }
	err := json.Unmarshal(data, &inline)
	return inline.Set, err == nil && inline.Set != nil
}
