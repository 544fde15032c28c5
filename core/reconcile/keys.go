package reconcile

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// changedKeys are the keys, sorted, whose wanted object is missing, different
// or about to go.
func changedKeys[K, V comparable](want dataplane.Table[K, V], have map[K]V, gone func(K) bool, compare func(a, b K) int) []K {
	keys := make([]K, 0, max(0, want.Len()-len(have))) // at least these are missing
	for k, v := range want.All {
		if h, ok := have[k]; !ok || h != v || gone(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compare)
	return keys
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

func compareFDB(a, b dataplane.FDBKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), bytes.Compare(a.MAC[:], b.MAC[:]))
}

func compareNeighs(a, b dataplane.NeighKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.IP.Compare(b.IP))
}

func compareRoutes(a, b dataplane.RouteKey) int {
	return cmp.Or(a.Dst.Addr().Compare(b.Dst.Addr()), a.Dst.Bits()-b.Dst.Bits(), cmp.Compare(a.Metric, b.Metric))
}
