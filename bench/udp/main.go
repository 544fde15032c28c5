package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options say what to measure.
type options struct {
	rounds  int
	time    time.Duration // of one measurement
	ways    []string
	wires   []string
	paths   []string
	loads   []string
	profile string
	tcp     string
	verbose bool
}

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			exit(role(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, parse()))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/udp:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse() options {
	var o options
	list := func(into *[]string, name, all, usage string) {
		*into = strings.Split(all, ",")
		flag.Func(name, usage+" (default "+all+")", func(s string) error { *into = strings.Split(s, ","); return nil })
	}
	flag.IntVar(&o.rounds, "rounds", 9, "the number of rounds")
	flag.DurationVar(&o.time, "time", time.Second, "the time of one measurement")
	list(&o.ways, "ways", "raw,vxlan,plain,gso", "ways to carry packets")
	list(&o.wires, "wires", "offload,simple", "with segmentation offload or without")
	list(&o.paths, "paths", "node,pod", "between the nodes themselves, and between pods")
	list(&o.loads, "loads", "tcp1,tcp8,small,rtt,ping",
		"the load: TCP in one stream and in eight, packets of 64 bytes, "+
			"round trips one after the other, and one each millisecond")
	flag.StringVar(&o.tcp, "tcp", "cubic", "congestion control of the streams; host: the host's own default")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the processes that carry packets")
	flag.BoolVar(&o.verbose, "v", false, "print each measurement")
	flag.Parse()
	return o
}

// run builds all ways, measures them in turns, and prints the tables.
func run(ctx context.Context, o options) error {
	var worlds []*world
	defer func() {
		for _, w := range worlds {
			w.close()
		}
	}()
	if slices.Contains(o.ways, "upstream") {
		dir, err := os.MkdirTemp("", "bench-udp-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		etcd, err := startStore(ctx, dir)
		if err != nil {
			return fmt.Errorf("start the etcd of upstream's daemons: %w", err)
		}
		defer etcd.Close()
	}
	for _, way := range o.ways {
		w, err := build(way, o.profile)
		if err != nil {
			return fmt.Errorf("build %s: %w", way, err)
		}
		worlds = append(worlds, w)
	}
	before, results := loadAverages(), table{}
	for round := range o.rounds {
		for _, wire := range o.wires {
			if err := results.measure(ctx, worlds, wire, o); err != nil {
				return fmt.Errorf("round %d, wire %s: %w", round, wire, err)
			}
		}
	}
	for _, w := range worlds {
		fmt.Printf("%s: %s\n", w.way, w.said)
	}
	fmt.Printf("congestion control: %s; load of this machine: %s before, %s after\n", o.tcp, before, loadAverages())
	results.print(os.Stdout, o)
	return nil
}

// loadAverages returns the machine's load averages of 1, 5 and 15 minutes.
func loadAverages() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "not known"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// measure adds one measurement of each path, load and way to the table.
func (t table) measure(ctx context.Context, worlds []*world, wire string, o options) error {
	for _, w := range worlds {
		if err := w.setOffload(wire == "offload"); err != nil {
			return err
		}
	}
	for _, path := range o.paths {
		for _, load := range o.loads {
			for _, w := range worlds {
				r, err := w.measure(ctx, path, load, o)
				if err != nil {
					return fmt.Errorf("%s over %s, %s: %w", load, w.way, path, err)
				}
				if o.verbose {
					fmt.Println(wire, path, load, w.way, r)
				}
				t.add(key{wire, path, load, w.way}, r)
			}
		}
	}
	return nil
}
