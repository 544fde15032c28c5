package sim

import "net/netip"

// A large cluster has a route, a neighbour and an FDB entry for each pair of
// its hosts, and on all hosts the same few values in them. So a world keeps each
// value once, and the tables hold numbers: of a fifth of the size, and nothing
// for the garbage collector to follow.

// interned numbers values in the order in which they are first seen. They are
// never forgotten.
type interned[T comparable] struct {
	numbers map[T]uint32
	values  []T
}

func newInterned[T comparable]() interned[T] { return interned[T]{numbers: map[T]uint32{}} }

// number is the value's.
func (i *interned[T]) number(v T) uint32 {
	n, ok := i.numbers[v]
	if !ok {
		n = uint32(len(i.values))
		i.numbers[v] = n
		i.values = append(i.values, v)
	}
	return n
}

// find is number for a value that may never have been seen.
func (i *interned[T]) find(v T) (uint32, bool) {
	n, ok := i.numbers[v]
	return n, ok
}

// values are what the tables of a world's hosts have in common.
type values struct {
	addrs    interned[netip.Addr]
	prefixes interned[netip.Prefix]
	routes   interned[plainRoute]
}

func newValues() *values {
	return &values{newInterned[netip.Addr](), newInterned[netip.Prefix](), newInterned[plainRoute]()}
}
