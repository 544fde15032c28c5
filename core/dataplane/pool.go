package dataplane

import (
	"iter"
	"math/bits"
	"slices"
)

// Pool holds what many hosts want alike, each object once. Objects come in
// groups, such as all that follows from one lease, and what a host wants of
// them is a choice of groups ([Common]): a bit for each. So thousands of hosts
// hold one copy, tell in a moment what differs between two choices, and put
// the very same objects into their plans.
//
// A pool only grows, and what is in it never changes. Whoever has put more into
// it than anybody still wants begins another one. It belongs to one goroutine.
type Pool struct {
	groups int
	routes column[RouteKey, Route]
	neighs column[NeighKey, Neigh]
	fdb    column[FDBKey, FDBEntry]
}

// NewPool is empty.
func NewPool() *Pool {
	return &Pool{routes: newColumn[RouteKey, Route](), neighs: newColumn[NeighKey, Neigh](), fdb: newColumn[FDBKey, FDBEntry]()}
}

// Groups is how many groups there are. They are numbered from 0.
func (p *Pool) Groups() int { return p.groups }

// Routes, Neighs and FDB list all objects, by number.
func (p *Pool) Routes() []*Item[RouteKey, Route] { return p.routes.items }

// Neighs: see Routes.
func (p *Pool) Neighs() []*Item[NeighKey, Neigh] { return p.neighs.items }

// FDB: see Routes.
func (p *Pool) FDB() []*Item[FDBKey, FDBEntry] { return p.fdb.items }

// Add makes a group of the routes, neighbours and FDB entries of a state, and
// returns its number.
func (p *Pool) Add(s State) int {
	p.routes.add(s.Routes, RouteKey.Compare)
	p.neighs.add(s.Neighs, NeighKey.Compare)
	p.fdb.add(s.FDB, FDBKey.Compare)
	p.groups++
	return p.groups - 1
}

// With yields the groups that have an object under any of the keys.
func (p *Pool) With(k *Keys) iter.Seq[int] {
	return func(yield func(int) bool) {
		_ = k == nil || p.routes.with(k.Routes, yield) && p.neighs.with(k.Neighs, yield) && p.fdb.with(k.FDB, yield)
	}
}

// AddGroup names the objects of a group.
func (k *Keys) AddGroup(p *Pool, group int) {
	addKeys(k.Routes, p.routes.of(group))
	addKeys(k.Neighs, p.neighs.of(group))
	addKeys(k.FDB, p.fdb.of(group))
}

func addKeys[K, V comparable](keys map[K]struct{}, items []*Item[K, V]) {
	for _, i := range items {
		keys[i.Key] = struct{}{}
	}
}

// Item is an object with its key.
type Item[K, V comparable] struct {
	Key    K
	Value  V
	number int
	group  int
	object Object // Value, once it was asked for
}

// Object is the item as ops name it. For what is in a pool it is made once.
func (i *Item[K, V]) Object() Object {
	if i.object == nil {
		return any(i.Value).(Object)
	}
	return i.object
}

// Number is the item's among those of its kind in a pool.
func (i *Item[K, V]) Number() int { return i.number }

// column is one kind of object of a pool.
type column[K, V comparable] struct {
	items  []*Item[K, V] // by number, group after group
	starts []int         // the first item of each group
	sorted []*Item[K, V] // by key
	byKey  map[K][]*Item[K, V]
}

func newColumn[K, V comparable]() column[K, V] {
	return column[K, V]{byKey: map[K][]*Item[K, V]{}}
}

func (c *column[K, V]) add(objects map[K]V, compare func(a, b K) int) {
	group := len(c.starts)
	c.starts = append(c.starts, len(c.items))
	for _, k := range slices.SortedFunc(keysOf(objects), compare) {
		v := objects[k]
		i := &Item[K, V]{Key: k, Value: v, number: len(c.items), group: group, object: any(v).(Object)}
		c.items = append(c.items, i)
		c.byKey[k] = append(c.byKey[k], i)
		at, _ := slices.BinarySearchFunc(c.sorted, i, func(a, b *Item[K, V]) int { return compare(a.Key, b.Key) })
		c.sorted = slices.Insert(c.sorted, at, i)
	}
}

func keysOf[K comparable, V any](m map[K]V) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// of lists the items of a group.
func (c *column[K, V]) of(group int) []*Item[K, V] {
	if group+1 == len(c.starts) {
		return c.items[c.starts[group]:]
	}
	return c.items[c.starts[group]:c.starts[group+1]]
}

// with yields the groups that have an item under a key; false: no more, please.
func (c *column[K, V]) with(keys map[K]struct{}, yield func(int) bool) bool {
	for k := range keys {
		for _, i := range c.byKey[k] {
			if !yield(i.group) {
				return false
			}
		}
	}
	return true
}

// Common is what many hosts want alike: a choice of groups of a pool, of which
// no two have an object under one key. It never changes.
type Common struct {
	pool   *Pool
	chosen groupSet
	len    [3]int // routes, neighbours and FDB entries
}

// Choose is the choice of those groups.
func (p *Pool) Choose(groups iter.Seq[int]) *Common {
	c := &Common{pool: p, chosen: make(groupSet, (p.groups+63)/64)}
	for g := range groups {
		c.chosen.add(g)
	}
	return c.count()
}

func (c *Common) count() *Common {
	for g := range c.chosen.all {
		c.len[0] += len(c.pool.routes.of(g))
		c.len[1] += len(c.pool.neighs.of(g))
		c.len[2] += len(c.pool.fdb.of(g))
	}
	return c
}

// But is the choice without one group.
func (c *Common) But(group int) *Common {
	if !c.Has(group) {
		return c
	}
	out := &Common{c.pool, slices.Clone(c.chosen), c.len}
	out.chosen.remove(group)
	for i, n := range []int{len(c.pool.routes.of(group)), len(c.pool.neighs.of(group)), len(c.pool.fdb.of(group))} {
		out.len[i] -= n
	}
	return out
}

// Pool is where the choice is from.
func (c *Common) Pool() *Pool { return c.pool }

// Has reports whether a group is chosen.
func (c *Common) Has(group int) bool { return c.chosen.has(group) }

// Groups yields the groups chosen, in order.
func (c *Common) Groups(yield func(int) bool) { c.chosen.all(yield) }

// Beyond is what c has of which o, from the same pool, has nothing.
func (c *Common) Beyond(o *Common) *Common {
	out := &Common{pool: c.pool, chosen: slices.Clone(c.chosen)}
	for i := range min(len(out.chosen), len(o.chosen)) {
		out.chosen[i] &^= o.chosen[i]
	}
	return out.count()
}

// groupSet has a bit for each group.
type groupSet []uint64

func (s groupSet) has(g int) bool { return g>>6 < len(s) && s[g>>6]>>(g&63)&1 != 0 }
func (s groupSet) add(g int)      { s[g>>6] |= 1 << (g & 63) }
func (s groupSet) remove(g int)   { s[g>>6] &^= 1 << (g & 63) }

func (s groupSet) all(yield func(int) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(i<<6 | bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}
