package dataplane

import "fmt"

// Object is one kernel object, of a kind that the table kinds lists.
type Object interface {
	fmt.Stringer
	putIn(s *State) // adds the object under its key
	// namesake returns the object with the same kind and key, if the state has one.
	namesake(s *State) (Object, bool)
}

// kind describes a kind of object to this package.
type kind struct {
	word  string                          // the first word of the text form
	parse func(f *fields) Object          // reads the words after the first
	each  func(s *State, do func(Object)) // calls do with every object of the kind, in any order
}

// kinds lists the kinds of objects in the order of a dump. A new kind is one
// file beside this one, a map or a [Table] in [State], and a line here.
var kinds = [...]kind{
	linkKind, addrKind, sysctlKind, proxyKind, peerKind, wgPeerKind, neighKind, fdbKind, routeKind, chainKind,
	policyKind, ikeKind, sharedKeyKind, connKind, tunnelKind, commandKind,
}

// Namesake returns the object that has the same kind and key as o.
func (s *State) Namesake(o Object) (Object, bool) { return o.namesake(s) }

// findIn returns the value of a map as an object.
func findIn[K comparable, V Object](m map[K]V, k K) (Object, bool) {
	v, ok := m[k]
	return v, ok
}

// findRow returns the object of a table with a key.
func findRow[K Key[K], V Row[K]](t *Table[K, V], k K) (Object, bool) {
	v, ok := t.Get(k)
	return v, ok
}

// eachRow calls do with every object of a table.
func eachRow[K Key[K], V Row[K]](t *Table[K, V], do func(Object)) {
	for _, o := range t.All {
		do(o)
	}
}

// eachOf calls do with every value of a map.
func eachOf[K comparable, V Object](m map[K]V, do func(Object)) {
	for _, o := range m {
		do(o)
	}
}
