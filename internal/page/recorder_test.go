package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func twoNodes() *Recorder {
	r := NewRecorder()
	r.Topology(Topology{Backend: "vxlan", Segments: []string{"192.0.2.0/24"}, Nodes: []Place{{Name: "n1"}, {Name: "n2"}}})
	return r
}

// TestOnlyChangesAreKept checks that a recorder does not keep repetitions.
func TestOnlyChangesAreKept(t *testing.T) {
	r := twoNodes()
	for i := range 10 {
		at := time.Duration(i) * time.Second
		r.State(at, "n1", State{Life: "running", Phase: "leased", Reasons: []string{"no uplink"}})
		r.Short(at, "n1", []string{"add x"})
		r.Leases(at, []Lease{{Key: "10.5.1.0-24"}})
		r.Faults(at, []string{"store"})
		r.State(at, "nobody", State{})
	}
	r.State(10*time.Second, "n1", State{Life: "running", Phase: "leased"})
	r.Short(10*time.Second, "n1", nil)
	r.Faults(10*time.Second, nil)
	rec := r.Finish(11*time.Second, About{})
	n := rec.Nodes[0]
	if len(n.State) != 2 || len(n.Short) != 2 || len(rec.Leases) != 1 || n.Short[1].Total != 0 {
		t.Errorf("kept %d states, %d shortages, %d contents of the store: want 2, 2, 1", len(n.State), len(n.Short),
			len(rec.Leases))
	}
	if d := cmp.Diff([]Band{{From: 0, To: 10_000_000, What: "store", Step: -1}}, rec.Bands); d != "" {
		t.Errorf("bands (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"no uplink", "add x"}, rec.Texts); d != "" {
		t.Errorf("texts (-want +got):\n%s", d)
	}
}

// TestPacketsOfOneFateAreOneRun checks that a stream is one run until its fate changes.
func TestPacketsOfOneFateAreOneRun(t *testing.T) {
	r := twoNodes()
	fates := []string{"", "", "no_route", "no_route", ""}
	for i, drop := range fates {
		r.Probe(time.Duration(i)*time.Millisecond, Probe{From: "n1", To: "n2", OK: drop == "", Drop: drop},
			[]Hop{{Where: "n1", What: "forward"}})
	}
	r.Probe(5*time.Second, Probe{From: "n1", To: "n2", OK: true}, nil)
	var runs []string
	for _, p := range r.Finish(6*time.Second, About{}).Probes {
		runs = append(runs, fmt.Sprintf("%d-%d %dx %s path %d", p.At, p.Last, p.Count, p.Drop, p.Path))
	}
	want := []string{"0-1000 2x  path 0", "2000-3000 2x no_route path 0", "4000-4000 1x  path 0",
		"5000000-5000000 1x  path -1"}
	if d := cmp.Diff(want, runs); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
}

// TestPageStaysSmall checks that a page stays below its limit, whatever happens.
func TestPageStaysSmall(t *testing.T) {
	r := twoNodes()
	long := strings.Repeat("x", 10_000)
	for i := range 100_000 {
		r.Event(time.Duration(i), "n1", "kind", long)
		r.Probe(time.Duration(i), Probe{From: "n1", To: "n2", Drop: "ttl"},
			[]Hop{{Where: "n1", What: "forward", Detail: fmt.Sprint(i)}})
	}
	rec := r.Finish(time.Second, About{})
	if len(rec.Events) != mostEvents || len(rec.Paths) != mostPaths || rec.Omitted != 200_000-mostEvents-mostPaths {
		t.Errorf("%d events, %d ways, %d left out", len(rec.Events), len(rec.Paths), rec.Omitted)
	}
	var page bytes.Buffer
	if err := Write(&page, rec); err != nil || page.Len() > 2_000_000 {
		t.Errorf("%d bytes, error %v", page.Len(), err)
	}
}

// TestLargeWorldsFit checks that two hundred nodes that reach each other fit into a page.
func TestLargeWorldsFit(t *testing.T) {
	const many = 200
	r, top := NewRecorder(), Topology{Segments: []string{"192.0.2.0/24"}}
	for i := range many {
		top.Nodes = append(top.Nodes, Place{Name: fmt.Sprintf("n%d", i)})
	}
	r.Topology(top)
	for i, n := range top.Nodes {
		for j, m := range top.Nodes {
			at := time.Duration(i*many+j) * time.Millisecond
			way := []Hop{{Where: n.Name, What: "encap"}, {Where: m.Name, What: "decap"}}
			r.Probe(at, Probe{From: n.Name, To: m.Name, OK: j != 7, Drop: "no_route"}, way)
			r.Short(at, n.Name, []string{"a" + m.Name, "b", "c", "d", "e" + n.Name})
		}
	}
	rec := r.Finish(time.Hour, About{})
	rec.Packet = 7
	var page bytes.Buffer
	if err := Write(&page, rec); err != nil || page.Len() > 2_000_000 {
		t.Fatalf("%d bytes, error %v", page.Len(), err)
	}
	if len(rec.Probes) != many*many || rec.Packet != 7 {
		t.Errorf("writing changed the recording: %d packets, the one to look at is %d", len(rec.Probes), rec.Packet)
	}
}
