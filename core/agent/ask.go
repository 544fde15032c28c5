package agent

import (
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

const (
	// askPatience is how long a question waits for the end of a turn. A turn with
	// thousands of peers takes some milliseconds.
	askPatience = time.Second
	// statusAge is how old the last known status may become while the loop turns.
	statusAge = 10 * time.Second
)

// turn is held while the node steps, or answers a question.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take() { t <- struct{}{} }
func (t turn) end()  { <-t }

// takeSoon takes the turn, or returns false if another one lasts too long.
func (t turn) takeSoon() bool {
	timer := time.NewTimer(askPatience)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// ask lets question read the node. Any goroutine may call it. It returns false if
// the node is busy.
func (a *agent) ask(question func(machine)) bool {
	if !a.turn.takeSoon() {
		return false
	}
	defer a.turn.end()
	question(a.node)
	return true
}

// askedBy names the function by which to ask the node.
func (h *Health) askedBy(ask func(question func(machine)) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask = ask
}

// question asks the node. It returns false if the node is busy or has not begun.
func (h *Health) question(q func(machine)) bool {
	h.mu.Lock()
	ask := h.ask
	started := h.started
	h.mu.Unlock()
	return ask != nil && started && ask(q)
}

// Status returns the status of the node: the present one, or if the node is busy, the
// last known one with what its last turn has changed.
func (h *Health) Status() node.Status {
	now := time.Now()
	v := h.verdict(now)
	var s node.Status
	if h.question(func(m machine) { s = m.Status() }) {
		h.known(s, now)
		s.TakenAt = now
	} else {
		s = h.lastKnown(v.pulse)
		if !s.TakenAt.IsZero() {
			s.Age = now.Sub(s.TakenAt)
		}
	}
	if !s.Ready {
		s.UnreadySince = v.since
	}
	s.Unhealthy, s.Version = v.unhealthy, h.Version
	s.Network = h.Network
	return s
}

// known keeps a status to show while the node is busy.
func (h *Health) known(s node.Status, at time.Time) {
	s.TakenAt = at
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = s
}

// lastKnown returns the last known status with a pulse, which may be newer.
func (h *Health) lastKnown(p node.Pulse) node.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.last
	s.Phase, s.Reasons = p.Phase, p.Reasons
	s.Ready = false // nothing says that a busy node is ready
	s.Subnet, s.Programmed = p.Subnet, p.Programmed
	s.Expires, s.RenewBy = p.Expires, p.RenewBy
	s.FailingFor = p.FailingFor
	return s
}

// outdated reports whether the last known status is old.
func (h *Health) outdated(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.last.TakenAt) >= statusAge
}

// Peers describes the peers. It returns false if the node is busy or has not begun.
func (h *Health) Peers() (peers []node.Peer, ok bool) {
	ok = h.question(func(m machine) { peers = m.Peers() })
	return peers, ok
}

// reader is a client of the pages.
type reader bool

// Root may read all. Any other client gets no text, data and output of the operator's commands, since they may
// name secrets.
const (
	root   reader = true
	anyone reader = false
)

// status, peers, diff and state return the answers at their pages, and false if the node is busy.
func (h *Health) status(r reader) (any, bool) {
	s := h.Status()
	if r != root {
		s.Outputs = nil
	}
	return s, true
}

func (h *Health) peers(reader) (any, bool) {
	peers, ok := h.Peers()
	return control.Peers{TakenAt: time.Now(), Peers: peers}, ok
}

func (h *Health) diff(r reader) (any, bool) {
	answer := control.Diff{TakenAt: time.Now()}
	ok := h.question(func(m machine) { answer.Lanes = m.Differences() })
	if r != root {
		for i, lane := range answer.Lanes {
			answer.Lanes[i] = lane.Public()
		}
	}
	return answer, ok
}

func (h *Health) state(r reader) (any, bool) {
	answer := control.State{TakenAt: time.Now()}
	var tables []node.Tables
	ok := h.question(func(m machine) { tables = m.Tables() })
	// The states are immutable, so the node can go on while they become text.
	for _, t := range tables {
		answer.Lanes = append(answer.Lanes, control.Tables{
			Lane: t.Lane, LastLook: t.LastLook, Want: r.dump(t.Want), Have: r.dump(t.Have),
		})
	}
	return answer, ok
}

// dump returns a state, which may be nil, as the reader may have it.
func (r reader) dump(s *dataplane.State) string {
	switch {
	case s == nil:
		return ""
	case r == root:
		return s.Dump()
	}
	return s.Public().Dump()
}
