package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of a page. Beyond them a recorder only counts.
const (
	mostEvents = 4000
	mostPaths  = 600
	mostOps    = 30
	mostText   = 400 // bytes
)

// Recorder makes a recording of observations. It keeps only changes: a repeated
// observation costs nothing. Times never go back.
type Recorder struct {
	rec    Recording
	texts  map[string]int
	nodes  map[string]*Node
	paths  map[string]int
	probes map[[2]string]int // the pair's last run
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{texts: map[string]int{}, nodes: map[string]*Node{}, paths: map[string]int{},
		probes: map[[2]string]int{}}
}

func micros(d time.Duration) int64 { return d.Microseconds() }

// Topology records the places of the nodes; it comes first.
func (r *Recorder) Topology(t Topology) {
	r.rec.Topology = t
	for _, p := range t.Nodes {
		r.nodes[p.Name] = &Node{Name: p.Name}
	}
}

// Step begins a directive; [Recorder.StepDone] ends it.
func (r *Recorder) Step(at time.Duration, text, input string) {
	r.rec.Steps = append(r.rec.Steps,
		Step{From: micros(at), To: micros(at), Text: text, Input: input})
}

// StepDone ends the last step. Its output must be the wanted one, if one is given.
func (r *Recorder) StepDone(at time.Duration, got, want string) {
	s := &r.rec.Steps[len(r.rec.Steps)-1]
	s.To, s.Got = micros(at), lines(got)
	if want != "" && want != got {
		s.Want, s.Failed = lines(want), true
	}
}

func lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

// State records the state of a node.
func (r *Recorder) State(at time.Duration, node string, s State) {
	n := r.nodes[node]
	if n == nil {
		return
	}
	for _, text := range s.Reasons {
		s.Why = append(s.Why, r.text(text))
	}
	if last := len(n.State) - 1; last >= 0 && n.State[last].State.equal(s) {
		return
	}
	n.State = append(n.State, StateChange{micros(at), s})
}

func (s State) equal(o State) bool {
	return s.Life == o.Life && s.Brief == o.Brief && s.Phase == o.Phase && s.Ready == o.Ready && s.Fenced == o.Fenced &&
		s.Stale == o.Stale && s.Synced == o.Synced && s.Subnet == o.Subnet && s.Peers == o.Peers &&
		s.Revision == o.Revision && slices.Equal(s.Why, o.Why)
}

// Short records the objects in which a node's host differs from the leases.
func (r *Recorder) Short(at time.Duration, node string, ops []string) {
	n := r.nodes[node]
	if n == nil {
		return
	}
	s := Shortage{At: micros(at), Total: len(ops), Ops: []int{}}
	for _, op := range ops[:min(len(ops), mostOps)] {
		s.Ops = append(s.Ops, r.text(op))
	}
	if last := len(n.Short) - 1; last >= 0 && n.Short[last].Total == s.Total && slices.Equal(n.Short[last].Ops, s.Ops) {
		return
	}
	n.Short = append(n.Short, s)
}

// Leases records the leases in the store.
func (r *Recorder) Leases(at time.Duration, leases []Lease) {
	if last := len(r.rec.Leases) - 1; last >= 0 && slices.Equal(r.rec.Leases[last].Leases, leases) {
		return
	}
	r.rec.Leases = append(r.rec.Leases, LeaseChange{micros(at), slices.Clone(leases)})
}

// Faults records the lasting faults in force.
func (r *Recorder) Faults(at time.Duration, what []string) {
	for i := range r.rec.Bands {
		if b := &r.rec.Bands[i]; b.To < 0 && !slices.Contains(what, b.What) {
			b.To = micros(at)
		}
	}
	for _, w := range what {
		open := func(b Band) bool { return b.To < 0 && b.What == w }
		if !slices.ContainsFunc(r.rec.Bands, open) {
			r.rec.Bands = append(r.rec.Bands, Band{micros(at), -1, w, len(r.rec.Steps) - 1})
		}
	}
}

// Event records a line in a log, or an action.
func (r *Recorder) Event(at time.Duration, who, kind, text string) {
	if len(r.rec.Events) >= mostEvents {
		r.rec.Omitted++
		return
	}
	r.rec.Events = append(r.rec.Events, Event{micros(at), who, kind, clip(text)})
}

// Probe records the fate of a packet from pod to pod, and its path. The caller fills in
// From, To and the outcome of p. Packets in a row with one fate are one run.
func (r *Recorder) Probe(at time.Duration, p Probe, path []Hop) {
	p.At = micros(at)
	p.Last = micros(at)
	p.Count = 1
	p.Path = r.path(path)
	pair := [2]string{p.From, p.To}
	if i, ok := r.probes[pair]; ok {
		if run := &r.rec.Probes[i]; run.alike(p) {
			run.Last, run.Count = p.Last, run.Count+1
			return
		}
	}
	r.probes[pair] = len(r.rec.Probes)
	r.rec.Probes = append(r.rec.Probes, p)
}

// mostGap is the longest time between two packets of one run.
const mostGap = int64(time.Second / time.Microsecond)

func (p Probe) alike(o Probe) bool {
	return p.OK == o.OK && p.Drop == o.Drop && p.Where == o.Where && p.Source == o.Source && p.After == o.After &&
		o.At-p.Last < mostGap
}

// path returns the index of a path, which it adds if it is new. The times of a path that
// is known already do not count.
func (r *Recorder) path(hops []Hop) int {
	if len(hops) == 0 {
		return -1
	}
	var key strings.Builder
	for _, h := range hops {
		fmt.Fprintf(&key, "%s %s %s\n", h.Where, h.What, h.Detail)
	}
	if i, ok := r.paths[key.String()]; ok {
		return i
	}
	if len(r.rec.Paths) >= mostPaths {
		r.rec.Omitted++
		return -1
	}
	i := len(r.rec.Paths)
	r.paths[key.String()] = i
	r.rec.Paths = append(r.rec.Paths, hops)
	return i
}

// text returns the index of a text, which it adds if it is new.
func (r *Recorder) text(s string) int {
	s = clip(s)
	i, ok := r.texts[s]
	if !ok {
		i = len(r.rec.Texts)
		r.texts[s] = i
		r.rec.Texts = append(r.rec.Texts, s)
	}
	return i
}

func clip(s string) string {
	if len(s) <= mostText {
		return s
	}
	return strings.ToValidUTF8(s[:mostText], "") + "…"
}

// Finish ends the recording. The caller says in words what it means.
func (r *Recorder) Finish(at time.Duration, about About) Recording {
	rec := r.rec
	rec.About, rec.Length = about, micros(at)
	rec.Focus, rec.Packet = rec.Length, -1
	for _, p := range rec.Topology.Nodes {
		rec.Nodes = append(rec.Nodes, *r.nodes[p.Name])
	}
	// A probe is recorded when its fate is known, but counts from the time it was sent.
	rec.Probes = slices.Clone(rec.Probes)
	slices.SortStableFunc(rec.Probes, func(a, b Probe) int { return cmp.Compare(a.At, b.At) })
	return rec
}
