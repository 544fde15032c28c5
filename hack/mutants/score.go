package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
)

// column is one way to catch mutants: the unit tests, or scenarios and search.
type column int

const (
	byUnit column = iota
	bySimulation
	columns
)

var columnNames = [columns]string{"unit", "simulation"}

// fate says what became of a mutant in one column.
type fate int

const (
	unreached fate = iota // no check runs the changed code
	survived
	caught
)

// result is a mutant and its fates.
type result struct {
	mutant
	fates [columns]fate
}

// score is the outcome for one package.
type score struct {
	folder  string
	all     int           // mutants there are
	has     [columns]bool // whether there are checks
	results []result
}

// job says how to score.
type job struct {
	root    string
	sample  int // mutants of a package; 0: all
	seed    uint64
	seeds   int
	workers int
	limits  limits
}

// score compiles a package with its mutants, and runs a sample of them.
func (j job) score(ctx context.Context, m *mutated) (score, error) {
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return score{}, err
	}
	defer os.RemoveAll(scratch)
	b, err := newBuilder(j.root, scratch, m, j.seeds)
	if err != nil {
		return score{}, err
	}
	var checks [columns][]*check
	checks[byUnit], err = b.unitTests(m)
	if err != nil {
		return score{}, err
	}
	if j.seeds > 0 {
		checks[bySimulation], err = b.simulation(m)
		if err != nil {
			return score{}, err
		}
	}
	s := score{folder: m.folder, all: len(m.mutants)}
	for c := range checks {
		s.has[c] = len(checks[c]) > 0
		for _, one := range checks[c] {
			if err := one.measure(ctx, scratch, j.limits); err != nil {
				return score{}, err
			}
		}
	}
	for _, chosen := range j.choose(m.mutants) {
		s.results = append(s.results, result{mutant: chosen})
	}
	return s, j.run(ctx, s.results, checks)
}

// choose draws the sample. It depends on the seed and the package alone.
func (j job) choose(mutants []mutant) []mutant {
	if j.sample == 0 || j.sample >= len(mutants) {
		return mutants
	}
	chosen := slices.Clone(mutants)
	rng := rand.New(rand.NewPCG(j.seed, uint64(len(mutants))))
	rng.Shuffle(len(chosen), func(a, b int) { chosen[a], chosen[b] = chosen[b], chosen[a] })
	chosen = chosen[:j.sample]
	slices.SortFunc(chosen, func(a, b mutant) int { return a.id - b.id })
	return chosen
}

// run finds the fate of each result, several at a time.
func (j job) run(ctx context.Context, results []result, checks [columns][]*check) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *result)
	var wg sync.WaitGroup
	for range j.workers {
		wg.Go(func() {
			for r := range next {
				if err := r.judge(ctx, checks, j.limits); err != nil {
					cancel(fmt.Errorf("%s: %w", r.mutant, err))
				}
			}
		})
	}
	for i := range results {
		next <- &results[i]
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// judge runs the checks that reach the mutant, in each column until one fails.
func (r *result) judge(ctx context.Context, checks [columns][]*check, l limits) error {
	for column := range checks {
		for _, c := range checks[column] {
			if !c.reached[r.id] {
				continue
			}
			fails, err := c.catches(ctx, r.id, l)
			if err != nil {
				return err
			}
			if fails {
				r.fates[column] = caught
				break
			}
			r.fates[column] = survived
		}
	}
	return nil
}
