package reconcile

import (
	"cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// Chains returns the plan that turns the chains in have into those wanted. A
// chain that differs in anything is replaced as a whole. What is not wanted
// goes, but of each family not before all that is wanted is in place: when the
// flavour changes, the old rules stand until somebody has read the new ones.
func Chains(want, have *dataplane.State) []dataplane.Op {
	var make, drop []dataplane.Op
	var short [2]bool
	never := func(dataplane.ChainKey) bool { return false }
	for _, c := range changed(want.Chains, have.Chains, never, compareChains) {
		make = append(make, dataplane.Op{Verb: dataplane.Replace, Object: c.object})
		short[c.key.Family] = true
	}
	for _, k := range staleKeys(want.Chains, have.Chains, compareChains) {
		if !short[k.Family] {
			drop = append(drop, dataplane.Op{Verb: dataplane.Delete, Object: have.Chains[k]})
		}
	}
	return append(make, drop...)
}

// compareChains brings those together that can be changed in one transaction.
func compareChains(a, b dataplane.ChainKey) int {
	return cmp.Or(cmp.Compare(a.Flavour, b.Flavour), cmp.Compare(a.Family, b.Family), cmp.Compare(a.Hook, b.Hook))
}
