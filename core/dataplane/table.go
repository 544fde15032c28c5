package dataplane

import (
	"slices"
	"sync/atomic"
)

// chunkRows is how many objects a chunk of a [Table] holds at most.
const chunkRows = 64

// Key is the key of a kind of objects, with an order.
type Key[K any] interface {
	comparable
	Compare(K) int
}

// Row is an object that knows its key.
type Row[K any] interface {
	comparable
	Object
	Key() K
}

// Table holds the objects of one kind in the order of their keys, in chunks
// that its clones share until one of them changes. A clone of a large table is
// cheap, and two tables are compared in one pass. The zero Table is empty.
// Several goroutines may read and clone a table that none changes.
type Table[K Key[K], V Row[K]] struct {
	chunks []*chunk[V] // none is empty
	size   int
}

type chunk[V any] struct {
	rows   []V
	shared atomic.Bool // another table may hold the chunk, so it must not change
}

// next returns an empty chunk for the end of the table. The first chunk grows,
// because most tables have few rows.
func (t *Table[K, V]) next() *chunk[V] {
	if len(t.chunks) == 0 {
		return &chunk[V]{}
	}
	return newChunk[V]()
}

// newChunk returns an empty chunk with room for all rows, in one allocation.
func newChunk[V any]() *chunk[V] {
	c := &struct {
		chunk[V]
		room [chunkRows]V
	}{}
	c.rows = c.room[:0]
	return &c.chunk
}

// Len is the number of objects.
func (t *Table[K, V]) Len() int { return t.size }

// Clone returns a copy. Neither table sees later changes of the other.
func (t *Table[K, V]) Clone() Table[K, V] {
	for _, c := range t.chunks {
		c.shared.Store(true)
	}
	return Table[K, V]{slices.Clone(t.chunks), t.size}
}

// Get returns the object with a key.
func (t *Table[K, V]) Get(k K) (v V, ok bool) {
	i, j, found := t.search(k)
	if !found {
		return v, false
	}
	return t.chunks[i].rows[j], true
}

// Has reports whether there is an object with a key.
func (t *Table[K, V]) Has(k K) bool {
	_, _, found := t.search(k)
	return found
}

// All yields the objects in the order of their keys.
func (t *Table[K, V]) All(yield func(K, V) bool) {
	for _, c := range t.chunks {
		for _, v := range c.rows {
			if !yield(v.Key(), v) {
				return
			}
		}
	}
}

// Each calls do for each object in the order of keys, without a copy. Do must not change it.
func (t *Table[K, V]) Each(do func(*V)) {
	for _, c := range t.chunks {
		for i := range c.rows {
			do(&c.rows[i])
		}
	}
}

// Put adds an object in place of the one that has its key.
func (t *Table[K, V]) Put(v V) {
	i, j, found := t.search(v.Key())
	if found {
		t.own(i).rows[j] = v
		return
	}
	t.size++
	if i == len(t.chunks) {
		c := t.next()
		c.rows = append(c.rows, v)
		t.chunks = append(t.chunks, c)
		return
	}
	c := t.own(i)
	if len(c.rows) == chunkRows {
		const half = chunkRows / 2
		second := newChunk[V]()
		second.rows = append(second.rows, c.rows[half:]...)
		c.rows = slices.Delete(c.rows, half, chunkRows)
		t.chunks = slices.Insert(t.chunks, i+1, second)
		if j > half {
			c, j = second, j-half
		}
	}
	c.rows = slices.Insert(c.rows, j, v)
}

// Delete removes the object with a key, if there is one.
func (t *Table[K, V]) Delete(k K) {
	i, j, found := t.search(k)
	if !found {
		return
	}
	t.size--
	if len(t.chunks[i].rows) == 1 {
		t.chunks = slices.Delete(t.chunks, i, i+1)
		return
	}
	c := t.own(i)
	c.rows = slices.Delete(c.rows, j, j+1)
}

// DeleteFunc removes the objects for which del returns true.
func (t *Table[K, V]) DeleteFunc(del func(K, V) bool) {
	var kept Table[K, V]
	for k, v := range t.All {
		if !del(k, v) {
			kept.Put(v)
		}
	}
	*t = kept
}

// Equal reports whether both tables hold the same objects.
func (t Table[K, V]) Equal(o Table[K, V]) bool {
	if t.size != o.size {
		return false
	}
	if slices.Equal(t.chunks, o.chunks) {
		return true
	}
	mine, theirs := cursor[V]{chunks: t.chunks}, cursor[V]{chunks: o.chunks}
	for {
		skipShared(&mine, &theirs)
		v := mine.next()
		if v == nil {
			return true
		}
		if *v != *theirs.next() {
			return false
		}
	}
}

// Differences calls do, in the order of keys, for each key under which the
// tables hold different objects; nil stands for no object. It passes over the chunks that
// the tables share, so the time that it takes for a clone depends on what has changed in it.
func (t *Table[K, V]) Differences(o *Table[K, V], do func(mine, theirs *V)) {
	a, b := cursor[V]{chunks: t.chunks}, cursor[V]{chunks: o.chunks}
	skipShared(&a, &b)
	mine, theirs := a.next(), b.next()
	for mine != nil || theirs != nil {
		order := 0
		switch {
		case theirs == nil:
			order = -1
		case mine == nil:
			order = 1
		case *mine != *theirs:
			order = (*mine).Key().Compare((*theirs).Key())
			if order == 0 {
				do(mine, theirs)
			}
		}
		if order < 0 {
			do(mine, nil)
		} else if order > 0 {
			do(nil, theirs)
		}
		if order == 0 {
			skipShared(&a, &b)
		}
		if order <= 0 {
			mine = a.next()
		}
		if order >= 0 {
			theirs = b.next()
		}
	}
}

// SharedWith returns a table with the objects of t that shares chunks with o, as far as o has the
// same. It returns false if more than so many objects differ.
func (t *Table[K, V]) SharedWith(o *Table[K, V], most int) (shared Table[K, V], ok bool) {
	shared = o.Clone()
	differ := 0
	t.Differences(o, func(mine, theirs *V) {
		differ++
		if mine != nil && differ <= most {
			shared.Put(*mine)
		} else if differ <= most {
			shared.Delete((*theirs).Key())
		}
	})
	return shared, differ <= most
}

// search returns the chunk and the place in it where a key is or belongs. The
// chunk is len(t.chunks) if the key belongs in a new last one.
func (t *Table[K, V]) search(k K) (in, at int, found bool) {
	if t.endsBefore(k) { // objects mostly come in order
		in = len(t.chunks) - 1
		at = len(t.chunks[in].rows)
		if at == chunkRows {
			return in + 1, 0, false // they fill their chunks
		}
		return in, at, false
	}
	first := func(c *chunk[V], k K) int { return c.rows[0].Key().Compare(k) }
	in, found = slices.BinarySearchFunc(t.chunks, k, first)
	if found || in == 0 {
		return in, 0, found
	}
	in--
	rows := t.chunks[in].rows
	at, found = slices.BinarySearchFunc(rows, k, func(v V, k K) int { return v.Key().Compare(k) })
	return in, at, found
}

// endsBefore reports whether the last object of the table is before a key.
func (t *Table[K, V]) endsBefore(k K) bool {
	if len(t.chunks) == 0 {
		return false
	}
	rows := t.chunks[len(t.chunks)-1].rows
	return rows[len(rows)-1].Key().Compare(k) < 0
}

// own returns a chunk that only this table holds.
func (t *Table[K, V]) own(i int) *chunk[V] {
	if c := t.chunks[i]; c.shared.Load() {
		t.chunks[i] = &chunk[V]{rows: append(make([]V, 0, len(c.rows)+1), c.rows...)}
	}
	return t.chunks[i]
}

// cursor walks through the rows of chunks.
type cursor[V any] struct {
	chunks []*chunk[V]
	at     int // in the first of chunks
}

// next returns the next row, or nil after the last.
func (c *cursor[V]) next() *V {
	if len(c.chunks) == 0 {
		return nil
	}
	rows := c.chunks[0].rows
	row := &rows[c.at]
	c.at++
	if c.at == len(rows) {
		c.chunks, c.at = c.chunks[1:], 0
	}
	return row
}

// skipShared moves two cursors past the chunks that both are about to begin.
func skipShared[V any](a, b *cursor[V]) {
	for a.at == 0 && b.at == 0 && len(a.chunks) > 0 && len(b.chunks) > 0 && a.chunks[0] == b.chunks[0] {
		a.chunks, b.chunks = a.chunks[1:], b.chunks[1:]
	}
}
