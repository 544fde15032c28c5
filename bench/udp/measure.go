package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vishvananda/netns"
)

// key names a measurement.
type key struct{ wire, path, load, way string }

// result holds the values of one measurement, by unit.
type result map[string]float64

// measure loads the second node, or its pod, from the first.
func (w *world) measure(ctx context.Context, path, load string, o options) (result, error) {
	from, to := w.nodes[0].ns, w.nodes[1].ns
	at := nodeAddr(w.way)
	if path == "pod" {
		from, to = w.nodes[0].pod, w.nodes[1].pod
		at = pod(1)
	}
	before, err := w.cpu()
	if err != nil {
		return nil, err
	}
	server := exec.CommandContext(ctx, "/proc/self/exe", "serve", load, at.String())
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startIn(to, server); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	client := exec.CommandContext(ctx, "/proc/self/exe", "send", load, at.String(), o.time.String(), o.tcp)
	sent, err := output(from, client)
	stdin.Close()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	var got count
	if err := json.NewDecoder(lines).Decode(&got); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := server.Wait(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	after, err := w.cpu()
	if err != nil {
		return nil, err
	}
	cpu := after - before
	for _, c := range []*exec.Cmd{server, client} {
		cpu += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	got.Time = max(got.Time, o.time) // a single burst at the end took the whole time
	return figures(load, got, sent.Trips, cpu), nil
}

// nodeAddr is the second node's own address, seen through the tunnel.
func nodeAddr(way string) netip.Addr {
	if way == "raw" {
		return underlay(1)
	}
	return subnet(1).Addr()
}

func output(ns netns.NsHandle, cmd *exec.Cmd) (count, error) {
	var c count
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := startIn(ns, cmd); err != nil {
		return c, err
	}
	err = json.NewDecoder(out).Decode(&c)
	if wait := cmd.Wait(); wait != nil {
		err = wait
	}
	return c, err
}

func figures(load string, got count, trips []time.Duration, cpu time.Duration) result {
	seconds := got.Time.Seconds()
	switch load {
	case "small":
		return result{"kpps": float64(got.Packets) / seconds / 1e3}
	case "rtt", "ping":
		return result{"p50 µs": float64(trips[0].Nanoseconds()) / 1e3, "p99 µs": float64(trips[1].Nanoseconds()) / 1e3}
	}
	return result{"Gbit/s": float64(got.Bytes) * 8 / seconds / 1e9, "CPU s/GB": cpu.Seconds() / (float64(got.Bytes) / 1e9)}
}

// table holds all results.
type table map[key][]result

func (t table) add(k key, r result) { t[k] = append(t[k], r) }

func (t table) median(k key, unit string) float64 {
	var all []float64
	for _, r := range t[k] {
		all = append(all, r[unit])
	}
	slices.Sort(all)
	if len(all) == 0 {
		return 0
	}
	return (all[len(all)/2] + all[(len(all)-1)/2]) / 2
}

// ratio returns the median of the ratios within each round, because other work
// on the machine slows both measurements of a round.
func (t table) ratio(k, to key, unit string) float64 {
	rs := table{}
	for i, r := range t[k] {
		if i < len(t[to]) && t[to][i][unit] > 0 {
			rs.add(k, result{unit: r[unit] / t[to][i][unit]})
		}
	}
	return rs.median(k, unit)
}

// print writes a table with a line for each load and a column for each way.
func (t table) print(out io.Writer, o options) {
	for _, wire := range o.wires {
		for _, path := range o.paths {
			fmt.Fprintf(out, "\n%s to %s, wire %s segmentation offload, %d rounds of %s, in brackets: to vxlan\n",
				path, path, map[string]string{"offload": "with", "simple": "without"}[wire], o.rounds, o.time)
			tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintf(tw, "\t%s\t\n", strings.Join(o.ways, "\t"))
			for _, load := range o.loads {
				for _, unit := range t.units(wire, path, load) {
					fmt.Fprintf(tw, "%s %s\t", load, unit)
					for _, way := range o.ways {
						k := key{wire, path, load, way}
						fmt.Fprintf(tw, "%.3g (%.2f)\t", t.median(k, unit), t.ratio(k, key{wire, path, load, "vxlan"}, unit))
					}
					fmt.Fprintln(tw)
				}
			}
			tw.Flush()
		}
	}
}

func (t table) units(wire, path, load string) []string {
	for k, rs := range t {
		if k.wire == wire && k.path == path && k.load == load {
			return slices.Sorted(maps.Keys(rs[0]))
		}
	}
	return nil
}
