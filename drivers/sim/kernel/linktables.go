package kernel

import (
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
)

// entry is a value in a table of a link, permanent or learnt.
type entry[V any] struct {
	value     V
	permanent bool
}

// neigh is a neighbour's link address.
type neigh = entry[dataplane.MAC]

// fdbEntry names the host of a MAC. The unspecified address stands for a next hop of another program.
type fdbEntry = entry[netip.Addr]

// entries is a table of a link whose keys and values are interned.
type entries[K, V comparable] struct {
	keys   *interned[K]
	values *interned[V]
	byKey  slots // a value's number and a flag in one
}

// newNeighs returns the neighbours of a link.
func newNeighs(v *values) entries[netip.Addr, dataplane.MAC] {
	return entries[netip.Addr, dataplane.MAC]{keys: &v.neighs, values: &v.macs}
}

// newFDB returns the hosts to which a vxlan link sends frames, by MAC.
func newFDB(v *values) entries[dataplane.MAC, netip.Addr] {
	return entries[dataplane.MAC, netip.Addr]{keys: &v.macs, values: &v.hosts}
}

func (t *entries[K, V]) open(packed uint32) entry[V] {
	return entry[V]{t.values.values[packed>>1], packed&1 != 0}
}

func (t *entries[K, V]) get(k K) (e entry[V], ok bool) {
	at, ok := t.keys.find(k)
	if !ok {
		return e, false
	}
	packed, ok := t.byKey.get(at)
	if !ok {
		return e, false
	}
	return t.open(packed), true
}

func (t *entries[K, V]) set(k K, e entry[V]) {
	at := t.keys.number(k)
	packed := t.values.number(e.value) << 1
	if e.permanent {
		packed |= 1
	}
	t.byKey.set(at, packed)
}

// remove deletes the entries that match.
func (t *entries[K, V]) remove(match func(K, entry[V]) bool) {
	for at, packed := range t.byKey.all {
		if match(t.keys.values[at], t.open(packed)) {
			t.byKey.delete(at)
		}
	}
}

func (t *entries[K, V]) delete(k K) {
	if at, ok := t.keys.find(k); ok {
		t.byKey.delete(at)
	}
}

func (t *entries[K, V]) clear() { t.byKey.clear() }

// all yields the entries.
func (t *entries[K, V]) all(yield func(K, entry[V]) bool) {
	for at, packed := range t.byKey.all {
		if !yield(t.keys.values[at], t.open(packed)) {
			return
		}
	}
}
