package reconcile

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// keyed is an object with its key.
type keyed[K comparable] struct {
	key    K
	object dataplane.Object
}

// changed returns the wanted objects that are missing, different or about to go, sorted.
func changed[K, V comparable](want, have map[K]V, gone func(K) bool, compare func(a, b K) int) []keyed[K] {
	list := make([]keyed[K], 0, max(0, len(want)-len(have))) // at least these are missing
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v || gone(k) {
			list = append(list, keyed[K]{k, any(v).(dataplane.Object)})
		}
	}
	slices.SortFunc(list, func(a, b keyed[K]) int { return compare(a.key, b.key) })
	return list
}

// staleKeys returns the keys of unwanted objects, sorted.
func staleKeys[K, V comparable](want, have map[K]V, compare func(a, b K) int) []K {
	var keys []K
	for k := range have {
		if _, wanted := want[k]; !wanted {
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
	return cmp.Or(cmp.Compare(a.Link, b.Link), comparePrefixes(a.Prefix, b.Prefix))
}

func comparePeers(a, b dataplane.PeerKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), comparePrefixes(a.Subnet, b.Subnet))
}

func compareRoutes(a, b dataplane.RouteKey) int {
	return cmp.Or(comparePrefixes(a.Dst, b.Dst), cmp.Compare(a.Metric, b.Metric))
}

func compareNeighs(a, b dataplane.NeighKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.IP.Compare(b.IP))
}

func compareFDB(a, b dataplane.FDBKey) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), bytes.Compare(a.MAC[:], b.MAC[:]))
}

// comparePrefixes orders by address, and a wider prefix before a narrower one.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
}
