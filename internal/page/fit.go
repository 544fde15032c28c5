package page

import (
	"encoding/json"
	"fmt"
	"slices"
)

// mostData is the largest size of the recording in a page, in bytes.
const mostData = 1_800_000

// encode makes the recording small enough for a page, and returns it as JSON. It
// leaves out the least useful parts first. Marshal escapes text that would end a
// script element.
func encode(rec *Recording) ([]byte, error) {
	for _, shrink := range []func(*Recording){func(*Recording) {}, (*Recording).dropWays, (*Recording).dropOps,
		(*Recording).dropEvents, (*Recording).dropProbes} {
		shrink(rec)
		data, err := json.Marshal(rec)
		if err != nil {
			return nil, fmt.Errorf("report data: %w", err)
		}
		if len(data) <= mostData {
			return data, nil
		}
	}
	return nil, fmt.Errorf("report data: %d nodes and %d steps do not fit into a page", len(rec.Nodes), len(rec.Steps))
}

// dropWays leaves out the ways of packets that arrived.
func (rec *Recording) dropWays() {
	probes, paths := slices.Clone(rec.Probes), [][]Hop{}
	moved := map[int]int{}
	for i := range probes {
		p := &probes[i]
		if p.OK || p.Path < 0 {
			p.Path = -1
			continue
		}
		to, known := moved[p.Path]
		if !known {
			to = len(paths)
			moved[p.Path], paths = to, append(paths, rec.Paths[p.Path])
		}
		p.Path = to
	}
	rec.Omitted += len(rec.Paths) - len(paths)
	rec.Probes, rec.Paths = probes, paths
}

// dropOps keeps of each difference the first few changes.
func (rec *Recording) dropOps() {
	rec.Nodes = slices.Clone(rec.Nodes)
	for i := range rec.Nodes {
		short := slices.Clone(rec.Nodes[i].Short)
		for j := range short {
			rec.Omitted += max(0, len(short[j].Ops)-3)
			short[j].Ops = short[j].Ops[:min(3, len(short[j].Ops))]
		}
		rec.Nodes[i].Short = short
	}
}

// dropEvents keeps the last thousand events.
func (rec *Recording) dropEvents() {
	n := max(0, len(rec.Events)-1000)
	rec.Events, rec.Omitted = rec.Events[n:], rec.Omitted+n
}

// dropProbes keeps the packets that were lost.
func (rec *Recording) dropProbes() {
	lost := slices.DeleteFunc(slices.Clone(rec.Probes), func(p Probe) bool { return p.OK })
	rec.Omitted = rec.Omitted + len(rec.Probes) - len(lost)
	rec.Probes = lost
	rec.Packet = -1
}
