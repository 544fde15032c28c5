package kernel

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// A large cluster has a route, a neighbour and an FDB entry for each pair of
// its hosts, and the same few values in all of them. So a world keeps each
// value once, and the tables hold its number in numbered slots: four bytes an
// entry, without hashing, and without pointers for the garbage collector.

// interned numbers values in the order in which it first sees them. It never
// forgets one.
type interned[T comparable] struct {
	numbers map[T]uint32
	values  []T
}

func newInterned[T comparable]() interned[T] { return interned[T]{numbers: map[T]uint32{}} }

// number returns the number of a value, and assigns one to a new value.
func (i *interned[T]) number(v T) uint32 {
	n, ok := i.numbers[v]
	if !ok {
		n = uint32(len(i.values))
		i.numbers[v] = n
		i.values = append(i.values, v)
	}
	return n
}

// find returns the number of a value, if it has one.
func (i *interned[T]) find(v T) (uint32, bool) {
	n, ok := i.numbers[v]
	return n, ok
}

// values holds the values common to the tables of a world's hosts.
type values struct {
	neighs   interned[netip.Addr]
	macs     interned[dataplane.MAC]
	hosts    interned[netip.Addr] // of MACs
	prefixes interned[netip.Prefix]
	routes   interned[compactRoute]
}

func newValues() *values {
	return &values{
		newInterned[netip.Addr](), newInterned[dataplane.MAC](), newInterned[netip.Addr](),
		newInterned[netip.Prefix](), newInterned[compactRoute](),
	}
}

// slots map numbers to numbers.
type slots struct {
	plusOne []uint32 // 0: the slot is free
	used    int
}

func (s *slots) get(at uint32) (v uint32, ok bool) {
	if int(at) >= len(s.plusOne) || s.plusOne[at] == 0 {
		return 0, false
	}
	return s.plusOne[at] - 1, true
}

func (s *slots) set(at, v uint32) {
	if more := int(at) + 1 - len(s.plusOne); more > 0 {
		s.plusOne = slices.Grow(s.plusOne, more)[:at+1]
	}
	if s.plusOne[at] == 0 {
		s.used++
	}
	s.plusOne[at] = v + 1
}

func (s *slots) delete(at uint32) {
	if int(at) < len(s.plusOne) && s.plusOne[at] != 0 {
		s.plusOne[at] = 0
		s.used--
	}
}

func (s *slots) clear() { *s = slots{} }

// all yields the numbers by slot. The body of the loop may free the current
// slot.
func (s *slots) all(yield func(at, v uint32) bool) {
	for at, v := range s.plusOne {
		if v != 0 && !yield(uint32(at), v-1) {
			return
		}
	}
}
