package dataplane

// Layers is a state in two parts: what many hosts want alike, in one copy for
// all of them, and what one of them wants of its own. A state by itself is one
// with nothing in common.
type Layers struct {
	Common *State // routes, neighbours and FDB entries; shared, never changed; may be nil
	Less   *Keys  // what of Common does not hold here
	Own    State  // everything else; takes the place of what Common has under a key
}

// Alone is a state that has nothing in common with others.
func Alone(s State) Layers { return Layers{Own: s} }

// Routes, Neighs and FDB are the layered tables.
func (l Layers) Routes() Table[RouteKey, Route] {
	t := Table[RouteKey, Route]{own: l.Own.Routes}
	if l.Common != nil {
		t.common = l.Common.Routes
	}
	if l.Less != nil {
		t.less = l.Less.Routes
	}
	return t
}

// Neighs: see Routes.
func (l Layers) Neighs() Table[NeighKey, Neigh] {
	t := Table[NeighKey, Neigh]{own: l.Own.Neighs}
	if l.Common != nil {
		t.common = l.Common.Neighs
	}
	if l.Less != nil {
		t.less = l.Less.Neighs
	}
	return t
}

// FDB: see Routes.
func (l Layers) FDB() Table[FDBKey, FDBEntry] {
	t := Table[FDBKey, FDBEntry]{own: l.Own.FDB}
	if l.Common != nil {
		t.common = l.Common.FDB
	}
	if l.Less != nil {
		t.less = l.Less.FDB
	}
	return t
}

// Len is the number of objects.
func (l Layers) Len() int {
	small := l.Own
	small.Routes, small.Neighs, small.FDB = nil, nil, nil
	return small.Len() + l.Routes().Len() + l.Neighs().Len() + l.FDB().Len()
}

// Only is the state as far as routes, neighbours and FDB entries are named,
// and all else that is in it.
func (l Layers) Only(k *Keys) State {
	s := l.Own
	s.Routes, s.Neighs, s.FDB = only(l.Routes(), k.Routes), only(l.Neighs(), k.Neighs), only(l.FDB(), k.FDB)
	return s
}

// Whole is the state in one part.
func (l Layers) Whole() State {
	s := l.Own
	s.Routes, s.Neighs, s.FDB = l.Routes().whole(), l.Neighs().whole(), l.FDB().whole()
	return s
}

// Table is one kind of object of a layered state.
type Table[K, V comparable] struct {
	common, own map[K]V
	less        map[K]struct{}
}

// TableOf is a table with nothing in common.
func TableOf[K, V comparable](m map[K]V) Table[K, V] { return Table[K, V]{own: m} }

// Get returns the object under a key.
func (t Table[K, V]) Get(k K) (V, bool) {
	if v, ok := t.own[k]; ok {
		return v, true
	}
	if _, hidden := t.less[k]; hidden {
		var none V
		return none, false
	}
	v, ok := t.common[k]
	return v, ok
}

// Has reports whether there is an object under a key.
func (t Table[K, V]) Has(k K) bool {
	if _, ok := t.own[k]; ok {
		return true
	}
	if len(t.common) == 0 {
		return false
	}
	_, hidden := t.less[k]
	_, ok := t.common[k]
	return ok && !hidden
}

// All yields all objects, in no order.
func (t Table[K, V]) All(yield func(K, V) bool) {
	for k, v := range t.common {
		if !t.covered(k) && !yield(k, v) {
			return
		}
	}
	for k, v := range t.own {
		if !yield(k, v) {
			return
		}
	}
}

// covered reports whether what is common under the key does not hold here.
func (t Table[K, V]) covered(k K) bool {
	_, hidden := t.less[k]
	_, replaced := t.own[k]
	return hidden || replaced
}

// Len is the number of objects.
func (t Table[K, V]) Len() int {
	n := len(t.common) + len(t.own)
	for k := range t.less {
		if _, ok := t.common[k]; ok {
			n--
		}
	}
	for k := range t.own {
		_, hidden := t.less[k]
		if _, ok := t.common[k]; ok && !hidden {
			n--
		}
	}
	return n
}

func (t Table[K, V]) whole() map[K]V {
	if len(t.common) == 0 {
		return t.own
	}
	m := make(map[K]V, t.Len())
	for k, v := range t.All {
		m[k] = v
	}
	return m
}

func only[K, V comparable](t Table[K, V], keys map[K]struct{}) map[K]V {
	m := make(map[K]V, len(keys))
	for k := range keys {
		if v, ok := t.Get(k); ok {
			m[k] = v
		}
	}
	return m
}
