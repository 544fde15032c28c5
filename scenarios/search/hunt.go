package search

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Hunt runs the seeds from first to first+count-1 in parallel, and stops when one
// fails. It reports the lowest failed seed of those that ran.
type Hunt struct {
	First, Count uint64
	Options      Options
	Workers      int // default: one a core

	mu      sync.Mutex
	next    uint64
	totals  Totals
	failure *Result
}

// Totals sums up a hunt so far.
type Totals struct {
	Seeds   uint64
	Virtual time.Duration
	Faults  map[string]int
	Events  map[string]int // log events of the nodes, by kind
}

// Run hunts until a seed fails, all are done or ctx ends.
func (h *Hunt) Run(ctx context.Context) {
	h.next = h.First
	h.totals.Faults, h.totals.Events = map[string]int{}, map[string]int{}
	var wg sync.WaitGroup
	for range cmp.Or(h.Workers, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for seed, ok := h.take(ctx); ok; seed, ok = h.take(ctx) {
				h.done(Run(Draw(seed, h.Options)))
			}
		})
	}
	wg.Wait()
}

func (h *Hunt) take(ctx context.Context) (uint64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || h.failure != nil || h.next == h.First+h.Count {
		return 0, false
	}
	h.next++
	return h.next - 1, true
}

func (h *Hunt) done(r Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.totals.Seeds++
	h.totals.Virtual += r.Virtual
	for name, n := range r.Faults {
		h.totals.Faults[name] += n
	}
	for kind, n := range r.Events {
		h.totals.Events[kind] += n
	}
	if r.Failed != "" && (h.failure == nil || r.Plan.Seed < h.failure.Plan.Seed) {
		h.failure = &r
	}
}

// Totals returns a copy of the sums so far.
func (h *Hunt) Totals() Totals {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.totals
	t.Faults, t.Events = maps.Clone(t.Faults), maps.Clone(t.Events)
	return t
}

// Failure returns the result of the seed that failed, nil if none has.
func (h *Hunt) Failure() *Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

// Unreached lists the faults that no seed has drawn, of those that fit the store
// and the backends of the options.
func (t Totals) Unreached(o Options) []string {
	var names []string
	var shapes []shape
	for seed := range uint64(200) {
		shapes = append(shapes, newDrawing(seed, o).top)
	}
	possible := append(faults(), extras()...)
	if o.Servers {
		possible = append(possible, serverFaults()...)
	}
	if o.Hostile {
		possible = append(possible, hostileFaults()...)
	}
	for _, f := range possible {
		if o.Networks && !slices.Contains(amongNetworks, f.name) {
			continue
		}
		fits := f.fits == nil || slices.ContainsFunc(shapes, f.fits)
		if fits && t.Faults[f.name] == 0 {
			names = append(names, f.name)
		}
	}
	return names
}
