// Command sim searches for bugs in the simulator, or replays one seed.
//
//	sim -seeds 1000            the seeds 1 to 1000, on all cores, until one fails
//	sim -seed 8231             one seed, with its plan and outcome
//	sim -hashes -seeds 500     the trace hashes of seeds of all kinds, for make same
//	sim -lines -seed 17        every line of the trace of one of them
//
// A failing seed is minimised and written as a scenario that fails.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/search"
)

type options struct {
	search.Options
	seed, first, seeds uint64
	workers            int
	minimise           bool
	hashes, lines      bool
	dir, report        string
}

func main() {
	var o options
	flags := flag.NewFlagSet("sim", flag.ExitOnError) // not the set of packages for tests
	flags.Uint64Var(&o.seeds, "seeds", 100, "the number of seeds to run")
	flags.Uint64Var(&o.first, "first", 1, "the first of these seeds")
	flags.Uint64Var(&o.seed, "seed", 0, "replay this seed alone, and show its plan")
	flags.IntVar(&o.Nodes, "nodes", 0, "the number of nodes; 0: as the seed draws it")
	flags.StringVar(&o.Backend, "backend", "",
		"vxlan, host-gw, udp, ipip, wireguard, extension or ipsec; empty: as the seed draws it")
	flags.StringVar(&o.Family, "family", "", "v4, v6 or dual; empty: as the seed draws it")
	flags.StringVar(&o.Firewall, "firewall", "", "iptables, nftables or none; empty: as the seed draws it")
	flags.StringVar(&o.Store, "store", "", "etcd or kube; empty: etcd")
	flags.BoolVar(&o.Networks, "networks", false, "run several networks in each daemon")
	flags.BoolVar(&o.Servers, "servers", false, "put flannel servers between the nodes and the datastore")
	flags.BoolVar(&o.Change, "change", false, "change the type of the backend in every seed; false: in one of eight")
	flags.BoolVar(&o.Hostile, "hostile", false, "let other programs write hostile records in every seed")
	flags.StringVar(&o.NextHops, "nexthops", "", "always or never; empty: as the seed draws it")
	flags.IntVar(&o.workers, "j", 0, "the number of seeds to run in parallel; 0: one for each core")
	flags.BoolVar(&o.minimise, "minimise", true, "minimise a failing seed and write it down; false: only name it")
	flags.BoolVar(&o.hashes, "hashes", false, "print the trace hash of each seed, whose number decides its cluster")
	flags.BoolVar(&o.lines, "lines", false, "print the trace of -seed, of the kind that -hashes gives it")
	flags.StringVar(&o.dir, "dir", "scenarios/regressions", "where a failing seed is written as a scenario")
	flags.StringVar(&o.report, "report", "", "the page to write about a failing seed; default bin/seed-N.html")
	_ = flags.Parse(os.Args[1:]) // ends the program at an error
	if err := o.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if o.hashes || o.lines {
		os.Exit(show(o))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if o.seed != 0 {
		os.Exit(replay(ctx, o))
	}
	os.Exit(hunt(ctx, o))
}

// show prints what a comparison of two commits needs.
func show(o options) int {
	out := bufio.NewWriter(os.Stdout)
	var err error
	if o.lines {
		err = search.Lines(out, o.seed)
	} else {
		err = search.Hashes(out, o.first, o.seeds)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		return 1
	}
	return 0
}

// replay runs one seed and prints its plan and outcome.
func replay(ctx context.Context, o options) int {
	p := search.Draw(o.seed, o.Options)
	fmt.Print(p.Scenario(fmt.Sprintf("As drawn from seed %d.", o.seed)), "\n")
	r := search.Run(p)
	again := search.Run(p)
	fmt.Printf("%s of virtual time, trace %016x\n", r.Virtual.Round(time.Millisecond), r.Trace)
	if again.Trace != r.Trace {
		fmt.Printf("NOT REPRODUCIBLE: a second run had the trace %016x\n", again.Trace)
		return 1
	}
	if r.Failed == "" {
		fmt.Println("all is well")
		return 0
	}
	return tell(ctx, o, r)
}

// hunt runs many seeds, with a line of progress every second.
func hunt(ctx context.Context, o options) int {
	h := &search.Hunt{First: o.first, Count: o.seeds, Options: o.Options, Workers: o.workers}
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-done:
			running = false
		}
		progress(h.Totals(), o.seeds, time.Since(began))
	}
	fmt.Println()
	if r := h.Failure(); r != nil {
		return tell(ctx, o, *r)
	}
	coverage(h.Totals(), o.Options)
	if ctx.Err() != nil {
		fmt.Println("interrupted")
		return 1
	}
	fmt.Printf("%d seeds passed\n", o.seeds)
	return 0
}

func progress(t search.Totals, of uint64, took time.Duration) {
	faults := 0
	for _, n := range t.Faults {
		faults += n
	}
	fmt.Printf("\r%d of %d seeds, %.1f/s, %s virtual (%.0f times as fast), %d faults   ", t.Seeds, of,
		float64(t.Seeds)/took.Seconds(), t.Virtual.Round(time.Second), t.Virtual.Seconds()/took.Seconds(), faults)
}

// coverage prints how often each fault was injected and each event was reported,
// and names the faults that no seed reached.
func coverage(t search.Totals, o search.Options) {
	fmt.Println("faults injected:")
	list(t.Faults)
	fmt.Println("what nodes reported:")
	list(t.Events)
	if missing := t.Unreached(o); len(missing) > 0 {
		fmt.Println("never injected:", strings.Join(missing, ", "))
	}
}

func list(counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("  %8d %s\n", counts[name], name)
	}
}

// tell prints what broke, minimises the plan and writes it as a scenario.
func tell(ctx context.Context, o options, r search.Result) int {
	fmt.Printf("seed %d FAILED (commit %s)\n%s\n", r.Plan.Seed, commit(), r.Failed)
	fmt.Printf("replay: %s\n", replayCommand(o, r.Plan.Seed))
	if !o.minimise {
		return 1
	}
	runs := 0
	small := search.Minimise(r.Plan, func(p search.Plan) bool {
		return ctx.Err() == nil && search.Symptom(search.Run(p).Failed) == search.Symptom(r.Failed)
	}, func(p search.Plan) {
		runs++
		fmt.Printf("\rminimising: run %d, %d steps, %d nodes   ", runs, len(p.Steps), p.Nodes)
	})
	result := search.Run(small)
	fmt.Printf("\rminimised in %d runs to %d steps on %d nodes\n", runs, len(small.Steps), small.Nodes)
	text := small.Scenario(strings.SplitN(result.Failed, "\n", 2)[0])
	path := filepath.Join(o.dir, fmt.Sprintf("seed-%d.txt", r.Plan.Seed))
	fmt.Printf("\n%s\n%s\n", text, result.Logs)
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		fmt.Println("written to", path)
	}
	if path, err := writePage(o, r.Plan.Seed, small); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		fmt.Println("to look at:", path)
	}
	return 1
}

// writePage writes the report on a failing plan.
func writePage(o options, seed uint64, p search.Plan) (path string, err error) {
	rec := search.Record(p, page.About{
		Scenario: fmt.Sprintf("seed %d, minimised", seed), Commit: commit(), Replay: replayCommand(o, seed),
	})
	path = o.report
	if path == "" {
		path = filepath.Join("bin", fmt.Sprintf("seed-%d.html", seed))
	}
	return path, page.WriteFile(path, rec)
}

func replayCommand(o options, seed uint64) string {
	cmd := fmt.Sprintf("make sim SEED=%d", seed)
	if o.Nodes != 0 {
		cmd += fmt.Sprintf(" NODES=%d", o.Nodes)
	}
	if o.Backend != "" {
		cmd += " BACKEND=" + o.Backend
	}
	if o.Store != "" {
		cmd += " STORE=" + o.Store
	}
	if o.Change {
		cmd += " CHANGE=yes"
	}
	if o.Networks {
		cmd += " NETWORKS=yes"
	}
	if o.Servers {
		cmd += " SERVERS=yes"
	}
	if o.Hostile {
		cmd += " HOSTILE=yes"
	}
	if o.NextHops != "" {
		cmd += " NEXTHOPS=" + o.NextHops
	}
	if o.Family != "" {
		cmd += " FAMILY=" + o.Family
	}
	if o.Firewall != "" {
		cmd += " FIREWALL=" + o.Firewall
	}
	return cmd
}

func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
