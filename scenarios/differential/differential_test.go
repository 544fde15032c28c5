package differential_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/drivers/sim/simtest"
	"github.com/flanneld/flannel/scenarios/differential"
)

func TestMain(m *testing.M) { linuxtest.Main(m) }

var (
	runs  = flag.Int("runs", 150, "the number of random runs that TestWorldsAgree makes")
	first = flag.Uint64("first", 1, "the seed of the first run")
)

// bytesPerRun make about thirty steps.
const bytesPerRun = 260

// kernel is a namespace with the Linux driver in it.
type kernel struct {
	*linuxtest.Host
	driver *linux.Driver
}

func newKernel() (differential.World, error) {
	h, err := linuxtest.NewHost()
	if err != nil {
		return nil, err
	}
	d, err := linux.Open(context.Background(), h.NS, nil)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return kernel{h, d}, nil
}

func (k kernel) Driver() driver.Lane { return k.driver }

func (k kernel) Close() error { return errors.Join(k.driver.Close(), k.Host.Close()) }

var worlds = differential.Worlds{
	Real: newKernel,
	Sim:  func() (differential.World, error) { return simtest.NewHost(1), nil },
}

// atOnce is the number of concurrent runs: most of a run waits until the kernel
// has removed a link.
const atOnce = 6

// TestWorldsAgree draws runs from fixed seeds.
func TestWorldsAgree(t *testing.T) {
	seeds := make(chan uint64)
	var running sync.WaitGroup
	var steps, ops atomic.Int64
	for range atOnce {
		running.Go(func() {
			for seed := range seeds {
				run := draw(seed)
				steps.Add(int64(len(run)))
				for _, step := range run {
					ops.Add(int64(1 + strings.Count(string(step), "\n")))
				}
				agree(t, fmt.Sprintf("seed %d", seed), run)
			}
		})
	}
	for seed := *first; seed < *first+uint64(*runs) && !t.Failed(); seed++ {
		seeds <- seed
	}
	close(seeds)
	running.Wait()
	t.Logf("%d runs from seed %d, %d steps of %d actions and ops", *runs, *first, steps.Load(), ops.Load())
}

// draw returns the run that a seed determines.
func draw(seed uint64) []differential.Step {
	data := make([]byte, bytesPerRun)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return differential.Generate(data)
}

// FuzzDifferential lets the fuzzer draw the steps.
func FuzzDifferential(f *testing.F) {
	f.Add([]byte("a small universe of names and values, so that collisions are frequent"))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, "run", differential.Generate(data)) })
}

// agree fails the test with a case if the worlds differ.
func agree(t *testing.T, name string, run []differential.Step) {
	t.Helper()
	m, err := worlds.Run(t.Context(), run)
	if err == nil && m != nil {
		least, left, failed := worlds.Minimise(t.Context(), run)
		run, m = least, left
		err = failed
	}
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case m != nil:
		t.Errorf("%s: the worlds differ in their %s (-Linux +simulator):\n%s\n%s",
			name, m.What, cmp.Diff(m.Real, m.Sim), differential.Case(run, m))
	}
}
