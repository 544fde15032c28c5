package reconcile

import (
	"cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// Chains returns the plan that turns the chains in have into those in want. It
// replaces a chain that differs in anything as a whole. It deletes a family's
// unwanted chains only once all wanted ones of the family are in place: when the
// flavour changes, the old rules stay until an observation shows the new ones.
func Chains(want, have *dataplane.State) []dataplane.Op {
	var ops, drop []dataplane.Op
	var incomplete [2]bool
	for _, k := range sortedKeys(want.Chains, compareChains) {
		if c, exists := have.Chains[k]; !exists || c != want.Chains[k] {
			ops = append(ops, dataplane.Op{Verb: dataplane.Replace, Object: want.Chains[k]})
			incomplete[k.Family] = true
		}
	}
	for _, k := range sortedKeys(have.Chains, compareChains) {
		if _, wanted := want.Chains[k]; !wanted && !incomplete[k.Family] {
			drop = append(drop, dataplane.Op{Verb: dataplane.Delete, Object: have.Chains[k]})
		}
	}
	return append(ops, drop...)
}

// compareChains sorts the chains that one transaction can change next to each other.
func compareChains(a, b dataplane.ChainKey) int {
	return cmp.Or(cmp.Compare(a.Flavour, b.Flavour), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Hook, b.Hook))
}
