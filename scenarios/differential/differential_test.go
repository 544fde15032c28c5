package differential_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
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
	runs  = flag.Int("runs", 200, "how many random runs TestWorldsAgree makes")
	first = flag.Uint64("first", 1, "the seed of the first of them")
	goOn  = flag.Bool("goon", false, "go on")
)

// bytesPerRun make about thirty steps.
const bytesPerRun = 300

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
	d, err := linux.Open(context.Background(), h.NS)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return kernel{h, d}, nil
}

func (k kernel) Driver() driver.Driver { return k.driver }

func (k kernel) Close() error { return errors.Join(k.driver.Close(), k.Host.Close()) }

var worlds = differential.Worlds{
	Real: newKernel,
	Sim:  func() (differential.World, error) { return simtest.NewHost(1), nil },
}

// TestWorldsAgree makes runs from seeds that are always the same.
func TestWorldsAgree(t *testing.T) {
	steps := 0
	for seed := *first; seed < *first+uint64(*runs); seed++ {
		data := make([]byte, bytesPerRun)
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		run := differential.Generate(data)
		steps += len(run)
		agree(t, run)
		if t.Failed() && !*goOn {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d runs, %d steps", *runs, steps)
}

// FuzzDifferential lets the fuzzer draw the steps.
func FuzzDifferential(f *testing.F) {
	f.Add([]byte("a small universe of names and values, so that collisions are frequent"))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, differential.Generate(data)) })
}

// agree fails the test with a case if the worlds part.
func agree(t *testing.T, run []differential.Step) {
	t.Helper()
	m, err := worlds.Run(t.Context(), run)
	if err == nil && m != nil {
		run, m, err = worlds.Minimise(t.Context(), run)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m != nil {
		t.Errorf("the worlds part in their %s (-Linux +simulator):\n%s\n%s",
			m.What, cmp.Diff(m.Real, m.Sim), differential.Case(run, m))
	}
}
