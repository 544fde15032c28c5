package dataplane

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestTable changes tables and clones of them at random, beside maps that hold
// the same, and compares them after each step.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tables := []*Table[NeighKey, Neigh]{{}}
		models := []map[NeighKey]Neigh{{}}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			i := rapid.IntRange(0, len(tables)-1).Draw(t, "table")
			if rapid.Bool().Draw(t, "clone") {
				tables = append(tables, new(tables[i].Clone()))
				models = append(models, maps.Clone(models[i]))
			}
			changeTable(t, tables[i], models[i])
			for i := range tables {
				checkTable(t, tables[i], models[i])
			}
			checkDifferences(t, tables[i], tables[len(tables)-1])
			shared, ok := tables[i].SharedWith(tables[len(tables)-1], 100)
			if ok {
				checkTable(t, &shared, models[i])
			}
		}
	})
}

// TestCloneInParallel clones one table in several goroutines, each of which
// changes its clone. The race detector watches.
func TestCloneInParallel(t *testing.T) {
	neigh := func(i int, mac byte) Neigh {
		return Neigh{NeighKey{"flannel.1", netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}, MAC{5: mac}}
	}
	var table Table[NeighKey, Neigh]
	for i := range 3 * chunkRows {
		table.Put(neigh(i, 0))
	}
	var group sync.WaitGroup
	for mac := range byte(4) {
		group.Go(func() {
			mine := table.Clone()
			for i := range mine.Len() {
				mine.Put(neigh(i, mac+1))
			}
		})
	}
	group.Wait()
	for _, n := range table.All {
		if n.MAC != (MAC{}) {
			t.Fatalf("a change to a clone shows in the table: %s", n)
		}
	}
}

// TestTableAllocations bounds what rows that come in order cost: one allocation
// for each chunk, and a few more for the first chunk and for the list of chunks.
func TestTableAllocations(t *testing.T) {
	const chunks = 50
	got := testing.AllocsPerRun(10, func() {
		var table Table[NeighKey, Neigh]
		for i := range chunks * chunkRows {
			ip := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
			table.Put(Neigh{NeighKey{"flannel.1", ip}, MAC{}})
		}
	})
	if got > chunks+20 {
		t.Errorf("%v allocations for %d chunks", got, chunks)
	}
}

// changeTable puts or deletes a run of neighbours, enough to split chunks.
func changeTable(t *rapid.T, table *Table[NeighKey, Neigh], model map[NeighKey]Neigh) {
	first, step := rapid.IntRange(0, 255).Draw(t, "first"), rapid.IntRange(-3, 3).Draw(t, "step")
	put, mac := rapid.Bool().Draw(t, "put"), MAC{5: rapid.Byte().Draw(t, "mac")}
	for i := range rapid.IntRange(1, 200).Draw(t, "count") {
		n := Neigh{NeighKey{"flannel.1", netip.AddrFrom4([4]byte{10, 0, 0, byte(first + i*step)})}, mac}
		if put {
			table.Put(n)
			model[n.NeighKey] = n
		} else {
			table.Delete(n.NeighKey)
			delete(model, n.NeighKey)
		}
	}
}

func checkTable(t *rapid.T, table *Table[NeighKey, Neigh], model map[NeighKey]Neigh) {
	var keys []NeighKey
	for k, v := range table.All {
		if got, ok := table.Get(k); !ok || got != v || model[k] != v {
			t.Fatalf("%s: All says %s, Get %s %t, want %s", k.IP, v, got, ok, model[k])
		}
		keys = append(keys, k)
	}
	if table.Len() != len(model) || len(keys) != len(model) || !slices.IsSortedFunc(keys, NeighKey.Compare) {
		t.Fatalf("%d objects by Len, %d by All, want %d in order: %v", table.Len(), len(keys), len(model), keys)
	}
}

func checkDifferences(t *rapid.T, a, b *Table[NeighKey, Neigh]) {
	got, want := map[string]bool{}, map[string]bool{}
	text := func(a, b *Neigh) string { return fmt.Sprintf("%v, %v", a, b) }
	a.Differences(b, func(mine, theirs *Neigh) { got[text(mine, theirs)] = true })
	for k, v := range a.All {
		if other, ok := b.Get(k); !ok {
			want[text(&v, nil)] = true
		} else if other != v {
			want[text(&v, &other)] = true
		}
	}
	for k, v := range b.All {
		if !a.Has(k) {
			want[text(nil, &v)] = true
		}
	}
	if !maps.Equal(got, want) || a.Equal(*b) != (len(want) == 0) {
		t.Fatalf("differences %v, equal %t, want %v", got, a.Equal(*b), want)
	}
}
