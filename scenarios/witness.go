package scenarios

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/scenarios/report"
)

// witness follows a session and tells a recorder what it sees. It changes
// nothing: a run that is recorded has the trace of one that is not.
type witness struct {
	*report.Recorder
	session *Session
	began   time.Time
	sim     *simWitness
	capture func(node string) (io.Writer, error)
	logged  map[string]int // bytes of a node's log that are told already
	looked  time.Time      // when the real world was last looked at
	failed  error          // of the captures
}

// Record begins to record; it comes before the first directive. Capture makes a
// pcap file for each node's uplink, where the world can write one; nil: none.
func (s *Session) Record(capture func(node string) (io.Writer, error)) {
	s.rec = &witness{Recorder: report.NewRecorder(), session: s, began: time.Now(), logged: map[string]int{}, capture: capture}
}

// Recording ends what Record began. A failure is what went wrong beside the
// outputs of the directives; it is empty where nothing did. It comes before
// Close, and may let the world go on: who reaches whom is found by packets.
func (s *Session) Recording(about report.About, failure string) report.Recording {
	r := s.rec
	about.World = s.name
	at := r.now()
	if s.world != nil {
		r.look(at)
	}
	r.tellLogs()
	if failure == "" && r.failed != nil {
		failure = r.failed.Error()
	}
	if r.sim != nil {
		if err := r.sim.world.World.Err(); failure == "" && err != nil {
			failure = err.Error()
		}
		about.Seed, about.Trace = fmt.Sprint(r.sim.world.World.Seed()), fmt.Sprintf("%016x", r.sim.world.World.TraceHash())
		r.sim.end()
	}
	return r.Finish(at, about, failure)
}

// step performs a directive and tells of it.
func (r *witness) step(d *datadriven.TestData) string {
	s := r.session
	if r.sim != nil {
		r.sim.catchUp()
	}
	words := []string{d.Cmd}
	for _, a := range d.CmdArgs {
		if word := a.String(); word != "may-fail" {
			words = append(words, word)
		}
	}
	r.Step(r.now(), strings.Join(words, " "), d.Input)
	out := s.run(d)
	if s.world != nil && d.Cmd == "topology" {
		r.begin()
	}
	if s.world != nil {
		r.look(r.now())
	}
	r.StepDone(r.now(), out, d.Expected)
	return out
}

// now is the time since the beginning of the world.
func (r *witness) now() time.Duration {
	if r.sim != nil {
		return r.sim.world.Elapsed()
	}
	if r.session.world == nil {
		return 0
	}
	return time.Since(r.began)
}

// begin tells who is where, and finds ways to see more than a session sees.
func (r *witness) begin() {
	s := r.session
	t := report.Topology{Config: s.top.Config}
	if b, _, err := s.backend(); err == nil {
		t.Backend = b.Type()
	}
	f := s.top.Families[0]
	for i := range s.top.Segments {
		t.Segments = append(t.Segments, underlayAddr(f, i, 0).Masked().String())
	}
	for i, name := range s.top.nodeNames() {
		t.Nodes = append(t.Nodes, report.Place{Name: name, Segment: s.top.segment(i), Address: s.address(i, f).String()})
	}
	r.Topology(t)
	if w, ok := s.world.(*SimWorld); ok {
		r.sim = newSimWitness(r, w)
		if r.capture != nil {
			r.failed = w.Capture(r.capture)
		}
		return
	}
	r.began = time.Now()
	s.world = &watchedWorld{s.world, r}
}

// look tells how everything is.
func (r *witness) look(at time.Duration) {
	r.Faults(at, sortedKeys(r.session.undo))
	records, err := r.session.world.Store().Records()
	if err != nil {
		records = nil // a store that is down says nothing
	} else {
		r.tellLeases(at, records)
	}
	for _, name := range r.session.top.nodeNames() {
		r.tellState(at, name)
		if err == nil {
			r.tellShortage(at, name, records)
		}
	}
}

func (r *witness) tellLeases(at time.Duration, records []Record) {
	var leases []report.Lease
	for _, rec := range records {
		l := report.Lease{Key: rec.Name, Reserved: rec.Reserved, Modified: rec.Modified}
		if decoded, ok := rec.lease(); ok {
			l.Owner = r.session.owner(decoded)
		}
		leases = append(leases, l)
	}
	r.Leases(at, leases)
}

func (r *witness) tellState(at time.Duration, name string) {
	n, err := r.session.world.Node(name)
	if err != nil {
		return
	}
	s := report.State{Life: "down", Phase: "idle", Subnet: subnetOf(n.SubnetFile())}
	switch {
	case n.Running() && r.paused(name):
		s.Life = "paused"
	case n.Running():
		s.Life = "running"
	default:
		if status, ok := n.Exited(); ok && status != 0 {
			s.Life = fmt.Sprintf("exited %d", status)
		}
		r.State(at, name, s)
		return
	}
	if s.Life == "paused" && r.sim == nil {
		r.State(at, name, s) // one that is halted does not answer
		return
	}
	st, err := n.Status()
	if err != nil {
		s.Reasons = []string{err.Error()}
		r.State(at, name, s)
		return
	}
	s.Phase, s.Ready, s.Fenced, s.Stale, s.Synced = st.Phase, st.Ready, st.Fenced, st.Stale, st.Synced
	s.Peers, s.Revision, s.Reasons = st.Peers, st.Revision, st.Reasons
	r.State(at, name, s)
}

// paused: a node whose daemon runs although the session counts it away.
func (r *witness) paused(name string) bool {
	began, known := r.session.started[name]
	return known && !began
}

// subnetOf is what a subnet file says, as prefixes.
func subnetOf(file string) string {
	var subnets []string
	for line := range strings.Lines(file) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "FLANNEL_SUBNET" || key == "FLANNEL_IPV6_SUBNET" {
			subnets = append(subnets, value)
		}
	}
	return strings.Join(subnets, " ")
}

func (r *witness) tellShortage(at time.Duration, name string, records []Record) {
	n, err := r.session.world.Node(name)
	if err != nil {
		return
	}
	ops, err := r.session.shortage(name, n, records)
	if err != nil {
		return // without a lease nothing is wanted yet
	}
	r.Short(at, name, texts(ops))
}

func texts(ops []dataplane.Op) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, op.String())
	}
	return lines
}

// tellLogs tells what real daemons logged since the last time. When they did,
// by the clock of this world, is known only to about the time between two looks.
func (r *witness) tellLogs() {
	if r.sim != nil || r.session.world == nil {
		return
	}
	for _, name := range r.session.top.nodeNames() {
		n, err := r.session.world.Node(name)
		if err != nil {
			continue
		}
		log := n.Log()
		for line := range strings.Lines(log[min(r.logged[name], len(log)):]) {
			kind, text := logLine(line)
			r.Event(r.now(), name, kind, text)
		}
		r.logged[name] = len(log)
	}
}

// logLine reads "I1121 03:34:01.568674 9502 log.go:18] kind: text".
func logLine(line string) (kind, text string) {
	line = strings.TrimSpace(line)
	if _, rest, ok := strings.Cut(line, "] "); ok {
		line = rest
	}
	kind, text, ok := strings.Cut(line, ": ")
	if !ok || strings.ContainsAny(kind, " \"") {
		return "log", line
	}
	return kind, text
}
