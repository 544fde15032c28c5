package firewall

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

func familyOf(f cidr.Family) knftables.Family {
	return [...]knftables.Family{knftables.IPv4Family, knftables.IPv6Family}[f]
}

// writeNFT makes the table of a family hold those chains and nothing else, in
// one transaction. The transaction deletes the table with all its contents and
// creates it again; every packet meets the old table or the new one. Without
// chains the table stays deleted.
func (t *toolbox) writeNFT(ctx context.Context, ns namespace.Namespace, f cidr.Family, chains []dataplane.Chain) error {
	tx := t.nft.NewTransaction()
	table := &knftables.Table{Family: familyOf(f), Name: wordsOf(f).table}
	tx.Add(table) // a delete needs an existing table
	tx.Delete(table)
	if len(chains) > 0 {
		addTable(tx, f)
	}
	for _, c := range chains {
		b := baseOf(c.Hook)
		addBase(tx, f, b.name, b)
		rules, err := c.Rules.List()
		if err != nil {
			return err
		}
		for len(rules) > 0 {
			n := sourcesFrom(c.Hook, rules)
			text, err := nftSources(f, rules[:n])
			if err != nil {
				return err
			}
			rule := &knftables.Rule{Family: familyOf(f), Table: table.Name, Chain: b.name, Rule: text}
			if network := rules[0].Network; network.IsValid() {
				rule.Comment = knftables.PtrTo(network.String())
			}
			tx.Add(rule)
			rules = rules[n:]
		}
	}
	return ns.Do(func() error { return t.nft.Run(ctx, tx) })
}

// addTable adds our table, with the comment that is contract (interop 7.2).
func addTable(tx *knftables.Transaction, f cidr.Family) {
	name := wordsOf(f).table
	tx.Add(&knftables.Table{Family: familyOf(f), Name: name, Comment: knftables.PtrTo("rules for " + name)})
}

func addBase(tx *knftables.Transaction, f cidr.Family, name string, b base) {
	kind, hook := knftables.FilterType, knftables.ForwardHook
	priority := knftables.FilterPriority
	switch b.hook {
	case hookInput:
		hook = knftables.InputHook
	case hookPostrouting:
		kind, hook = knftables.NATType, knftables.PostroutingHook
		priority = knftables.SNATPriority
	}
	tx.Add(&knftables.Chain{
		Family: familyOf(f), Table: wordsOf(f).table, Name: name,
		Type: &kind, Hook: &hook, Priority: &priority, Comment: &b.comment,
	})
}

// nftRuleText writes a rule as nft reads it.
func nftRuleText(f cidr.Family, r dataplane.Rule) (string, error) {
	var b strings.Builder
	if r.In != "" {
		fmt.Fprintf(&b, "iifname %q ", r.In)
	}
	switch r.Proto {
	case dataplane.ProtoUDP:
		fmt.Fprintf(&b, "udp dport %d ", r.Port)
	case dataplane.ProtoIPIP:
		fmt.Fprintf(&b, "meta l4proto %d ", r.Proto)
	}
	if r.Mark != (dataplane.Mark{}) {
		fmt.Fprintf(&b, "meta mark & %#x == %#x ", r.Mark.Mask, r.Mark.Value)
	}
	for _, a := range []struct {
		field string
		match dataplane.Match
	}{{"saddr", r.From}, {"daddr", r.To}} {
		if !a.match.Prefix.IsValid() {
			continue
		}
		fmt.Fprintf(&b, "%s %s ", wordsOf(f).ip, a.field)
		if a.match.Not {
			b.WriteString("!= ")
		}
		fmt.Fprintf(&b, "%s ", a.match.Prefix)
	}
	switch r.Verdict {
	case dataplane.Return, dataplane.Accept, dataplane.Drop, dataplane.Masquerade:
		b.WriteString(string(r.Verdict))
	case dataplane.MasqueradeRandom:
		b.WriteString("masquerade fully-random")
	default:
		return "", fmt.Errorf("no verdict %q in nftables", r.Verdict)
	}
	return b.String(), nil
}
