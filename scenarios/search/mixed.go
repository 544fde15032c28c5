package search

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// kinds are what the seeds of a comparison of two commits draw, in turn.
var kinds = []struct {
	name    string
	options Options
}{
	{"plain", Options{}},
	{"change", Options{Change: true}},
	{"kube", Options{Store: "kube"}},
	{"servers", Options{Servers: true}},
	{"networks", Options{Networks: true}},
	{"hostile", Options{Hostile: true}},
	{"hostile-kube", Options{Hostile: true, Store: "kube"}},
	{"hostile-wireguard", Options{Hostile: true, Change: true, Backend: "wireguard"}},
}

// drawMixed makes the plan of a seed of a comparison, and names its kind.
func drawMixed(seed uint64) (kind string, p Plan) {
	k := kinds[seed%uint64(len(kinds))]
	return k.name, Draw(seed, k.options)
}

// Hashes runs seeds of all kinds, and writes a line for each, in order: the seed, its kind, the hash of its trace
// without the texts of logs, and "red" if the run failed.
func Hashes(out io.Writer, first, count uint64) error {
	lines := make([]string, count)
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < count; i = next.Add(1) - 1 {
				lines[i] = hashLine(first + i)
			}
		})
	}
	wg.Wait()
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func hashLine(seed uint64) string {
	kind, p := drawMixed(seed)
	r, _ := run(p, watch{}, nil)
	line := fmt.Sprintf("%d %s %016x", seed, kind, r.Actions)
	if r.Failed != "" {
		line += " red"
	}
	return line
}

// Lines runs one of these seeds, and writes the lines of its trace, each after the hash of all until then.
func Lines(out io.Writer, seed uint64) error {
	_, p := drawMixed(seed)
	var failed error
	r, _ := run(p, watch{line: func(w *world.World, line string) {
		if failed == nil {
			_, failed = fmt.Fprintf(out, "%016x %q\n", w.EventHash(), line)
		}
	}}, nil)
	if failed == nil {
		_, failed = fmt.Fprintf(out, "%016x end: %q\n", r.Actions, r.Failed)
	}
	return failed
}
