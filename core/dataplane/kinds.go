package dataplane

import (
	"fmt"
	"maps"
)

// Object is one kernel object, of a kind that the table kinds lists.
type Object interface {
	fmt.Stringer
	kind() *kind
}

// kind describes a kind of object to this package: its text form, and its place in a
// State.
type kind struct {
	word  string                 // the first word of the text form
	parse func(f *fields) Object // reads the words after the first

	empty func(s *State)                          // makes the place ready for objects
	put   func(s *State, o Object)                // adds an object under its key
	each  func(s *State, do func(Object))         // calls do with every object, in any order
	like  func(s *State, o Object) (Object, bool) // the object with the key of o
	count func(s *State) int
	equal func(s, o *State) bool
	clone func(into, s *State) // gives into a copy of its own
	addTo func(into, s *State) // adds the objects of s to those of into
}

// Word returns the name of an object's kind, which is the first word of its text form.
func Word(o Object) string { return o.kind().word }

// kinds lists the kinds of objects in the order of a dump. A new kind is one
// file beside this one, a map or a [Table] in [State], and a line here.
var kinds = [...]*kind{
	&linkKind, &addrKind, &sysctlKind, &proxyKind, &peerKind, &wgPeerKind, &neighKind, &fdbKind, &nextHopKind,
	&routeKind,
	&chainKind, &policyKind, &ikeKind, &sharedKeyKind, &formerKeyKind, &connKind, &tunnelKind, &commandKind,
	&cloudRouteKind,
}

// tableKind describes a kind whose objects are in a [Table].
func tableKind[K Key[K], V Row[K]](word string, parse func(*fields) Object, in func(*State) *Table[K, V]) kind {
	return kind{
		word: word, parse: parse,
		empty: func(*State) {},
		put:   func(s *State, o Object) { in(s).Put(o.(V)) },
		each: func(s *State, do func(Object)) {
			for _, v := range in(s).All {
				do(v)
			}
		},
		like:  func(s *State, o Object) (Object, bool) { return in(s).Get(o.(V).Key()) },
		count: func(s *State) int { return in(s).Len() },
		equal: func(s, o *State) bool { return in(s).Equal(*in(o)) },
		clone: func(into, s *State) { *in(into) = in(s).Clone() },
		addTo: func(into, s *State) {
			for _, v := range in(s).All {
				in(into).Put(v)
			}
		},
	}
}

// mapObject is an object that a map holds under its key.
type mapObject[K comparable] interface {
	comparable
	Object
	mapKey() K
}

// mapKind describes a kind whose objects are in a map. There are few of them.
func mapKind[K comparable, V mapObject[K]](word string, parse func(*fields) Object, in func(*State) *map[K]V) kind {
	return kind{
		word: word, parse: parse,
		empty: func(s *State) { *in(s) = map[K]V{} },
		put:   func(s *State, o Object) { (*in(s))[o.(V).mapKey()] = o.(V) },
		each: func(s *State, do func(Object)) {
			for _, v := range *in(s) {
				do(v)
			}
		},
		like: func(s *State, o Object) (Object, bool) {
			v, ok := (*in(s))[o.(V).mapKey()]
			return v, ok
		},
		count: func(s *State) int { return len(*in(s)) },
		equal: func(s, o *State) bool { return maps.Equal(*in(s), *in(o)) },
		clone: func(into, s *State) { *in(into) = maps.Clone(*in(s)) },
		addTo: func(into, s *State) { maps.Copy(*in(into), *in(s)) },
	}
}
