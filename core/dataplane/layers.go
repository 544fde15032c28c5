package dataplane

// Layers is a state in two parts: what many hosts want alike, in one copy for
// all of them, and what one of them wants of its own. A state by itself is one
// with nothing in common.
type Layers struct {
	Common *Common // routes, neighbours and FDB entries; may be nil
	Own    State   // everything else; takes the place of what Common has under a key
}

// Alone is a state that has nothing in common with others.
func Alone(s State) Layers { return Layers{Own: s} }

// Routes, Neighs and FDB are the layered tables.
func (l Layers) Routes() Table[RouteKey, Route] {
	if l.Common == nil {
		return TableOf(l.Own.Routes)
	}
	return tableOf(l.Common, &l.Common.pool.routes, l.Common.len[0], l.Own.Routes)
}

// Neighs: see Routes.
func (l Layers) Neighs() Table[NeighKey, Neigh] {
	if l.Common == nil {
		return TableOf(l.Own.Neighs)
	}
	return tableOf(l.Common, &l.Common.pool.neighs, l.Common.len[1], l.Own.Neighs)
}

// FDB: see Routes.
func (l Layers) FDB() Table[FDBKey, FDBEntry] {
	if l.Common == nil {
		return TableOf(l.Own.FDB)
	}
	return tableOf(l.Common, &l.Common.pool.fdb, l.Common.len[2], l.Own.FDB)
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
	own    map[K]V
	common *column[K, V] // nil: nothing is
	chosen groupSet
	len    int
	hidden []*Item[K, V] // those of common in whose place own has something
}

// TableOf is a table with nothing in common.
func TableOf[K, V comparable](m map[K]V) Table[K, V] { return Table[K, V]{own: m, len: len(m)} }

func tableOf[K, V comparable](c *Common, column *column[K, V], length int, own map[K]V) Table[K, V] {
	t := Table[K, V]{own: own, common: column, chosen: c.chosen, len: length + len(own)}
	for k := range own {
		if i := t.shared(k); i != nil {
			t.hidden = append(t.hidden, i)
			t.len--
		}
	}
	return t
}

// shared is what is common under a key, or nil.
func (t Table[K, V]) shared(k K) *Item[K, V] {
	if t.common != nil {
		for _, i := range t.common.byKey[k] {
			if t.chosen.has(i.group) {
				return i
			}
		}
	}
	return nil
}

// Get returns the object under a key.
func (t Table[K, V]) Get(k K) (V, bool) {
	if v, ok := t.own[k]; ok {
		return v, true
	}
	if i := t.shared(k); i != nil {
		return i.Value, true
	}
	var none V
	return none, false
}

// Has reports whether there is an object under a key.
func (t Table[K, V]) Has(k K) bool {
	if _, ok := t.own[k]; ok {
		return true
	}
	return t.shared(k) != nil
}

// Common yields what is common, by key.
func (t Table[K, V]) Common(yield func(*Item[K, V]) bool) {
	if t.common == nil {
		return
	}
	for _, i := range t.common.sorted {
		if t.chosen.has(i.group) && !t.hides(i) && !yield(i) {
			return
		}
	}
}

func (t Table[K, V]) hides(i *Item[K, V]) bool {
	for _, h := range t.hidden {
		if h == i {
			return true
		}
	}
	return false
}

// Own is what is not common.
func (t Table[K, V]) Own() map[K]V { return t.own }

// Len is the number of objects.
func (t Table[K, V]) Len() int { return t.len }

func (t Table[K, V]) whole() map[K]V {
	if t.common == nil {
		return t.own
	}
	m := make(map[K]V, t.len)
	for i := range t.Common {
		m[i.Key] = i.Value
	}
	for k, v := range t.own {
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
