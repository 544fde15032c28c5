package search

import "testing"

func TestSeeds(t *testing.T) {
	bad := 0
	for seed := uint64(1); seed <= 1000 && bad < 20; seed++ {
		r := Run(Draw(seed, Options{}))
		if r.Failed != "" {
			bad++
			if bad <= 20 {
				t.Errorf("seed %d step %d (%s): %s", seed, r.At, r.Plan.all()[r.At].Line, r.Failed)
			}
		}
	}
	t.Logf("%d bad", bad)
}
