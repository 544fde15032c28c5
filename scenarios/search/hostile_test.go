package search

import (
	"slices"
	"testing"
)

// TestHostileWritesAreDrawn checks that seeds draw each hostile write, and that all other steps of a seed are the
// same as without them.
func TestHostileWritesAreDrawn(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(400) {
		for _, store := range []string{"etcd", "kube"} {
			o := Options{Store: store, Change: true}
			calm := Draw(seed, o)
			o.Hostile = true
			hostile := Draw(seed, o)
			rest := hostile.Steps
			for _, s := range calm.Steps {
				at := slices.Index(rest, s)
				if at < 0 {
					t.Fatalf("seed %d: hostile writes change or move the step %q", seed, s.Line)
				}
				rest = rest[at+1:]
			}
			for _, s := range hostile.Steps {
				if s.Hostile {
					drawn[s.Fault]++
				}
			}
		}
	}
	for _, f := range hostileFaults() {
		if drawn[f.name] == 0 {
			t.Errorf("no seed draws %s", f.name)
		}
	}
}
