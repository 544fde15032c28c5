package firewall

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// A host may run several daemons, each with a network of its own (interop 1.7), and all of them make
// their rules in the same chains. A daemon knows the others by their rules alone.

// Others returns the rules of a chain that other daemons of the host made for their networks. Such a
// network overlaps with none of the given ones, and the chain holds all of its rules. Any other
// foreign rule belongs to no daemon, and no daemon makes a rule about packets from its network to
// that of another daemon.
func Others(key dataplane.ChainKey, rules []dataplane.Rule, networks []netip.Prefix) []dataplane.Rule {
	if key.Hook == dataplane.Input {
		return guardsOfOthers(rules, networks)
	}
	var theirs []netip.Prefix
	for _, r := range rules {
		network := r.From.Prefix
		if !slices.ContainsFunc(networks, network.Overlaps) && completeFor(key, r, rules) {
			theirs = append(theirs, network)
		}
	}
	var others []dataplane.Rule
	for _, r := range rules {
		toOurs := !r.To.Not && slices.ContainsFunc(networks, r.To.Prefix.Overlaps)
		if !toOurs && cidr.Within(theirs, r.About()) {
			others = append(others, r)
		}
	}
	return others
}

// minus returns the rules that are not among others.
func minus(rules, others []dataplane.Rule) []dataplane.Rule {
	are := make(map[dataplane.Rule]bool, len(others))
	for _, r := range others {
		are[r] = true
	}
	return slices.DeleteFunc(slices.Clone(rules), func(r dataplane.Rule) bool { return are[r] })
}

// completeFor reports whether a rule is the one by which a network's rules are known, and
// the chain holds all of them: in both chains it is the first about packets from the whole network.
func completeFor(key dataplane.ChainKey, r dataplane.Rule, rules []dataplane.Rule) bool {
	network := r.From.Prefix
	holds := func(set []dataplane.Rule) bool {
		return !slices.ContainsFunc(set, func(r dataplane.Rule) bool { return !slices.Contains(rules, r) })
	}
	switch {
	case !network.IsValid() || r.From.Not:
		return false
	case key.Hook == dataplane.Forward:
		return r.Verdict == dataplane.Accept && !r.To.Prefix.IsValid() && holds(forward(key.Family, network, nil))
	case r.To != outside(multicast[key.Family]):
		return false
	}
	return slices.ContainsFunc(rules, func(o dataplane.Rule) bool {
		own := o.From.Prefix
		return o.To == within(network) && o.Verdict == dataplane.Return && cidr.Contains(network, own) &&
			holds(masquerade(key.Family, network, own, r.Verdict)[1:]) // without ofProxy, which every network needs
	})
}

// Keep adds to the wanted chains the rules that other daemons have in the chains of the host. A
// chain that this daemon does not need, and that holds no rule of its networks, stays as it is.
func (w *Wanted) Keep(have *dataplane.State, networks []netip.Prefix) {
	for key, c := range have.Chains {
		rules, err := c.Rules.List()
		if err != nil {
			continue // the chain is replaced
		}
		others := Others(key, rules, networks)
		if len(others) == 0 {
			continue
		}
		mine, _ := w.Chains.Chains[key].Rules.List()
		_, wanted := w.Chains.Chains[key]
		if !wanted && key.Hook == dataplane.Postrouting {
			mine = []dataplane.Rule{ofProxy}
		}
		present := minus(rules, others)
		switch {
		case !slices.Equal(present, mine):
			rules = append(mine, others...)
		case !wanted:
			w.Chains.AddChain(c)
			continue
		}
		w.Chains.AddChain(dataplane.Chain{ChainKey: key, Jump: dataplane.Placed, Rules: dataplane.MakeRules(rules...)})
	}
}
