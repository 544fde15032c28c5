package lease

import (
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	leases := func(keys ...string) (list []*Lease) {
		for _, k := range keys {
			key, err := ParseKey(k)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, &Lease{Key: key, ModRevision: 1})
		}
		return list
	}
	// Sorted as text: 10.5.10 stands before 10.5.9.
	old := leases("10.5.10.0-24", "10.5.3.0-24", "10.5.7.0-24", "10.5.9.0-24")
	now := leases("10.5.1.0-24", "10.5.10.0-24", "10.5.4.0-24", "10.5.7.0-24", "10.5.99.0-24")
	now[3].ModRevision = 2
	for _, c := range []struct {
		old, now []*Lease
		want     [3]int // added, changed, gone
	}{
		{nil, nil, [3]int{}},
		{nil, now, [3]int{5, 0, 0}},
		{old, nil, [3]int{0, 0, 4}},
		{old, old, [3]int{}},
		{old, now, [3]int{3, 1, 2}},
	} {
		d := Compare(c.old, c.now)
		if got := [3]int{len(d.Added), len(d.Changed), len(d.Gone)}; got != c.want {
			t.Errorf("from %d to %d leases: added, changed, gone %v, want %v", len(c.old), len(c.now), got, c.want)
		}
	}
}

func TestSwapped(t *testing.T) {
	a := []*Lease{{ModRevision: 1}, {ModRevision: 2}, {ModRevision: 3}}
	for i, k := range []string{"10.5.10.0-24", "10.5.3.0-24", "10.5.7.0-24"} {
		a[i].Key, _ = ParseKey(k)
	}
	again := *a[1] // read again, without a change
	var first Lease
	first.Key, _ = ParseKey("10.5.1.0-24")
	for _, c := range []struct {
		old, now   []*Lease
		gone, came []*Lease
	}{
		{nil, nil, nil, nil},
		{a, a, nil, nil},
		{nil, a, nil, a},
		{a, nil, a, nil},
		{a, []*Lease{a[0], &again, a[2]}, a[1:2], []*Lease{&again}},
		{a, []*Lease{a[0], a[2]}, a[1:2], nil},
		{a, []*Lease{&first, a[0], a[1]}, a[2:], []*Lease{&first}},
	} {
		gone, came := Swapped(c.old, c.now)
		if !slices.Equal(gone, c.gone) || !slices.Equal(came, c.came) {
			t.Errorf("from %d to %d leases: gone %v, came %v; want %v, %v", len(c.old), len(c.now), gone, came, c.gone, c.came)
		}
	}
}
