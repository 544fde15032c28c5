package lang

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/scenarios/report"
)

// Witness follows a session and tells a recorder what it sees. It changes
// nothing: a recorded run has the same trace as an unrecorded one.
type Witness struct {
	*page.Recorder
	session *Session
	began   time.Time
	telling Telling // nil: the witness has to look for itself
	capture func(node string) (io.Writer, error)
	logged  map[string]int // bytes of a node's log that the witness has already recorded
	looked  time.Time      // when the real world was last looked at
	failed  error          // of the captures
}

// Teller is a world that tells a witness of every event as it happens.
type Teller interface {
	Tell(*Witness) Telling
}

// Telling reports a world's events to one witness.
type Telling interface {
	Now() time.Duration // since the world began
	// CatchUp tells what has changed since the last event.
	CatchUp()
	// Identity names the run; err is the error that ended the world early.
	Identity() (seed, trace string, err error)
	// End ends the telling. The world may continue, to see which pods reach each other.
	End()
}

// Record begins to record; call it before the first directive. Capture opens a
// pcap file for each node's uplink, if the world can write one; nil: none.
func (s *Session) Record(capture func(node string) (io.Writer, error)) {
	s.rec = &Witness{Recorder: page.NewRecorder(), session: s, began: time.Now(), logged: map[string]int{},
		capture: capture}
}

// Recording ends the recording; call it before Close. Failure is an error that no
// directive printed, or empty. The world may continue, to find out by packets which
// pods reach each other.
func (s *Session) Recording(about page.About, failure string) page.Recording {
	r := s.rec
	about.World = s.WorldName
	at := r.now()
	if s.world != nil {
		r.look(at)
	}
	r.tellLogs()
	if failure == "" && r.failed != nil {
		failure = r.failed.Error()
	}
	if r.telling != nil {
		seed, trace, err := r.telling.Identity()
		if failure == "" && err != nil {
			failure = err.Error()
		}
		about.Seed, about.Trace = seed, trace
		r.telling.End()
	}
	return report.Finish(r.Recorder, at, about, failure)
}

// step performs a directive and records it.
func (r *Witness) step(d *datadriven.TestData) string {
	s := r.session
	if r.telling != nil {
		r.telling.CatchUp()
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

// now returns the time since the beginning of the world.
func (r *Witness) now() time.Duration {
	if r.telling != nil {
		return r.telling.Now()
	}
	if r.session.world == nil {
		return 0
	}
	return time.Since(r.began)
}

// begin records the topology, and asks the world for a [Telling].
func (r *Witness) begin() {
	s := r.session
	t := page.Topology{Config: s.top.Config}
	if b, _, err := s.backend(); err == nil {
		t.Backend = b.Type()
	}
	f := s.families[0]
	for i := range s.top.Segments {
		t.Segments = append(t.Segments, UnderlayAddr(f, i, 0).Masked().String())
	}
	for i, name := range s.top.NodeNames() {
		t.Nodes = append(t.Nodes, page.Place{Name: name, Segment: s.top.Segment(i), Address: s.address(i, f).String()})
	}
	r.Topology(t)
	if c, ok := s.world.(PacketCapturer); ok && r.capture != nil {
		r.failed = c.Capture(r.capture)
	}
	if t, ok := s.world.(Teller); ok {
		r.telling = t.Tell(r)
		return
	}
	r.began = time.Now()
	s.world = &watchedWorld{s.world, r}
}

// look records the state of everything.
func (r *Witness) look(at time.Duration) {
	r.Faults(at, sortedKeys(r.session.undo))
	records, err := r.session.world.Store().Records()
	if err != nil {
		records = nil // a stopped store does not answer
	} else {
		r.TellLeases(at, records)
	}
	for _, name := range r.session.top.NodeNames() {
		r.TellState(at, name)
		if err == nil {
			r.TellShortage(at, name, records)
		}
	}
}

// TellLeases records the leases that the store holds.
func (r *Witness) TellLeases(at time.Duration, records []Record) {
	var leases []page.Lease
	for _, rec := range records {
		l := page.Lease{Key: rec.Name, Reserved: rec.Reserved, Modified: rec.Modified}
		if decoded, ok := rec.lease(); ok {
			l.Owner = r.session.owner(decoded)
		}
		leases = append(leases, l)
	}
	r.Leases(at, leases)
}

// TellState records the state of a node's daemon.
func (r *Witness) TellState(at time.Duration, name string) {
	n, err := r.session.world.Node(name)
	if err != nil {
		return
	}
	s := page.State{Life: "down", Phase: "idle", Subnet: subnetOf(n.SubnetFile())}
	switch {
	case n.Running() && r.paused(name):
		s.Life = "paused"
	case n.Running():
		s.Life = "running"
	default:
		if p, ok := n.(Process); ok {
			if status, ended := p.Exited(); ended && status != 0 {
				s.Life = fmt.Sprintf("exited %d", status)
			}
		}
		r.State(at, name, s)
		return
	}
	if s.Life == "paused" && r.telling == nil {
		r.State(at, name, s) // a halted process does not answer
		return
	}
	st, err := n.Status()
	if err != nil {
		s.Reasons = []string{err.Error()}
		r.State(at, name, s)
		return
	}
	s.Phase = st.Phase.String()
	s.Ready = st.Ready
	s.Fenced = st.Fenced
	s.Stale = st.Stale
	s.Synced = st.Synced
	s.Peers = st.Peers
	s.Revision = st.Revision
	s.Reasons = st.Reasons
	r.State(at, name, s)
}

// paused reports whether a node's daemon runs although the session counts it as away.
func (r *Witness) paused(name string) bool {
	began, known := r.session.started[name]
	return known && !began
}

// subnetOf returns the prefixes in a subnet file.
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

// TellShortage records the objects that a node's kernel still lacks.
func (r *Witness) TellShortage(at time.Duration, name string, records []Record) {
	n, err := r.session.world.Node(name)
	if err != nil {
		return
	}
	short, err := r.session.shortage(name, n, r.session.owned(records))
	if err != nil {
		return // without a lease nothing is demanded of the node yet
	}
	r.Short(at, name, short)
}

// tellLogs records the lines that real daemons have logged since the last look,
// with the time of this look.
func (r *Witness) tellLogs() {
	if r.telling != nil || r.session.world == nil {
		return
	}
	for _, name := range r.session.top.NodeNames() {
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
