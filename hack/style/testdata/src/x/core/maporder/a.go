package maporder

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func sortAll([]string) {}

func maporder(m map[string]int, g map[string][]string, l []string, s struct{ l []string }, b *strings.Builder) {
	for k := range m { // want "appends to l in the order of a map"
		l = append(l, k)
	}
	for k := range m { // want "appends to s.l in the order of a map"
		s.l = append(s.l, k)
	}
	for k := range maps.Keys(m) { // want "appends to l in the order of a map"
		l = append(l, k)
	}
	for k := range m { // want "writes in the order of a map"
		fmt.Println(k)
	}
	for k := range m { // want "writes in the order of a map"
		b.WriteString(k)
	}
	for k := range m { // want "appends to l in the order of a map"
		l = append(l, k)
	}
	slices.Sort(g["other"])
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s.l = append(s.l, k)
	}
	for k := range m {
		g[k] = append(g[k], k)
	}
	for k := range m {
		var own []string
		own = append(own, k)
		_ = own
	}
	for k := range m {
		_ = fmt.Sprint(k)
	}
}

func sorted(m map[string]int, l, n []string) {
	for k := range m {
		l = append(l, k)
	}
	slices.Sort(l)
	for k := range m {
		n = append(n, k)
	}
	sortAll(n)
}
