package dataplane

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLayersAreMaps compares layered states with maps that hold the same.
func TestLayersAreMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := NewPool()
		var groups []map[RouteKey]Route
		for range rapid.IntRange(0, 130).Draw(t, "groups") {
			s := routes(t, len(groups), rapid.IntRange(0, 2).Draw(t, "routes"))
			if g := pool.Add(s); g != len(groups) {
				t.Fatalf("group %d, want %d", g, len(groups))
			}
			groups = append(groups, s.Routes)
		}
		choose := func() (*Common, map[RouteKey]Route) {
			want := map[RouteKey]Route{}
			var chosen []int
			for g, routes := range groups {
				if rapid.Bool().Draw(t, "chosen") {
					chosen = append(chosen, g)
					maps.Copy(want, routes)
				}
			}
			return pool.Choose(slices.Values(chosen)), want
		}
		a, wantA := choose()
		b, wantB := choose()
		if len(groups) > 0 {
			g := rapid.IntRange(0, len(groups)-1).Draw(t, "but")
			a = a.But(g)
			for k := range groups[g] {
				delete(wantA, k)
			}
		}
		check(t, "a choice", Layers{Common: a}, wantA)
		check(t, "what is beyond another", Layers{Common: a.Beyond(b)}, beyond(wantA, wantB))
		own := routes(t, 300, 2)
		for k, r := range wantA { // in the place of what is common
			r.Protocol = ProtocolBoot
			own.Routes[k] = r
			break
		}
		maps.Copy(wantA, own.Routes)
		check(t, "with something of its own", Layers{Common: a, Own: own}, wantA)
	})
}

// routes are those of the n-th group, whose keys no other has.
func routes(t *rapid.T, n, count int) State {
	s := NewState(0)
	for i := range count {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n ^ 5), byte(n >> 8), byte(i)}), 32)
		s.AddRoute(Route{RouteKey: RouteKey{Dst: dst}, Link: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "link"))})
	}
	return s
}

func beyond(a, b map[RouteKey]Route) map[RouteKey]Route {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(k RouteKey, _ Route) bool { _, both := b[k]; return both })
	return out
}

func check(t *rapid.T, what string, l Layers, want map[RouteKey]Route) {
	t.Helper()
	if got := l.Whole().Routes; !maps.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	table := l.Routes()
	if table.Len() != len(want) || l.Len() != len(want) {
		t.Fatalf("%s: %d objects, of them %d routes, want %d", what, l.Len(), table.Len(), len(want))
	}
	var last RouteKey
	for i := range table.Common {
		if i.Object() != Object(i.Value) || i.Key.Compare(last) <= 0 {
			t.Fatalf("%s: %v after %v", what, i, last)
		}
		last = i.Key
	}
	for k, r := range want {
		if got, ok := table.Get(k); !ok || got != r || !table.Has(k) {
			t.Fatalf("%s: %v under %v, want %v", what, got, k, r)
		}
	}
	none := RouteKey{Dst: netip.MustParsePrefix("0.0.0.0/0")}
	if _, ok := table.Get(none); ok || table.Has(none) {
		t.Fatalf("%s: there is a default route", what)
	}
}
