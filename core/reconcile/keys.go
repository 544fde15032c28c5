package reconcile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// keyed is an object with its key.
type keyed[K comparable] struct {
	key    K
	object dataplane.Object
}

// changed are the wanted objects, sorted, that are missing, different or about
// to go.
func changed[K, V comparable](want dataplane.Table[K, V], have map[K]V, gone func(K) bool, compare func(a, b K) int) []keyed[K] {
	list := make([]keyed[K], 0, max(0, want.Len()-len(have))) // at least these are missing
	stands := func(k K, v V) bool {
		h, ok := have[k]
		return ok && h == v && !gone(k)
	}
	for i := range want.Common {
		if len(have) == 0 || !stands(i.Key, i.Value) {
			list = append(list, keyed[K]{i.Key, i.Object()})
		}
	}
	for k, v := range want.Own() {
		if !stands(k, v) {
			list = append(list, keyed[K]{k, any(v).(dataplane.Object)})
		}
	}
	byKey := func(a, b keyed[K]) int { return compare(a.key, b.key) }
	if !slices.IsSortedFunc(list, byKey) { // what is common comes sorted
		slices.SortFunc(list, byKey)
	}
	return list
}

// staleKeys are the keys, sorted, that nobody wants.
func staleKeys[K, V comparable](want dataplane.Table[K, V], have map[K]V, compare func(a, b K) int) []K {
	var keys []K
	for k := range have {
		if !want.Has(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	return keys
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}

func compareAddrs(a, b dataplane.Addr) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits())
}

func comparePeers(a, b dataplane.PeerKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.Subnet.Addr().Compare(b.Subnet.Addr()), a.Subnet.Bits()-b.Subnet.Bits())
}
