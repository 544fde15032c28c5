package kernel

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// A large cluster has a route, a neighbour and an FDB entry for each pair of
// its hosts, and on all hosts the same few values in them. So a world keeps each
// value once, and the tables hold numbers, in slots that are numbered as well:
// four bytes an entry, nothing to be hashed, and nothing for the garbage
// collector to follow.

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
	neighs   interned[netip.Addr]
	macs     interned[dataplane.MAC]
	hosts    interned[netip.Addr] // behind which MACs are
	prefixes interned[netip.Prefix]
	routes   interned[plainRoute]
}

func newValues() *values {
	return &values{newInterned[netip.Addr](), newInterned[dataplane.MAC](), newInterned[netip.Addr](), newInterned[netip.Prefix](), newInterned[plainRoute]()}
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

// all yields what is there by slot. The slot at hand may be freed.
func (s *slots) all(yield func(at, v uint32) bool) {
	for at, v := range s.plusOne {
		if v != 0 && !yield(uint32(at), v-1) {
			return
		}
	}
}
