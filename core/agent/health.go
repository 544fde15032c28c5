package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/node"
)

// When the daemon counts as unhealthy, so that a supervisor restarts it.
const (
	// stallAfter is how much later than due the loop may turn.
	stallAfter = 15 * time.Second
	// failAfter is how long a host may resist: long enough for an operator's
	// mistake to be put right without a restart, which would not help anyway.
	failAfter = 5 * time.Minute
)

// Health knows how the run is doing and tells it to supervisors (interop 9).
// The zero Health tells nobody. It may be used by several goroutines at once.
type Health struct {
	mu      sync.Mutex
	started bool       // the loop has turned at least once
	turning time.Time  // since when the node is in a Step; zero: it is not
	wake    time.Time  // when the loop must turn next; zero: whenever
	running []effect   // what is under way
	failing time.Time  // since when no diff was empty; zero: the last one was
	pulse   node.Pulse // as of the last turn

	describe func() node.Status // asks the node; nil: there is none yet
}

// describedBy names the function that asks the node for its status.
func (h *Health) describedBy(describe func() node.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.describe = describe
}

// status asks the node for its status. A node that is stalled would not answer,
// so only its last pulse is told then.
func (h *Health) status(v verdict) node.Status {
	h.mu.Lock()
	describe := h.describe
	h.mu.Unlock()
	s := node.Status{Phase: v.pulse.Phase, Subnet: v.pulse.Subnet, Reasons: v.pulse.Reasons}
	if describe != nil && v.started && len(v.stalled) == 0 {
		s = describe()
	}
	s.Unhealthy = v.unhealthy
	return s
}

// stepping notes that the node has been given something to think about.
func (h *Health) stepping(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started, h.turning = true, now
}

// waiting notes that a turn has ended, and how the node is doing.
func (h *Health) waiting(wake time.Time, running []effect, p node.Pulse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.FailingFor == 0:
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = h.turning
	}
	h.turning, h.wake = time.Time{}, wake
	h.running, h.pulse = running, p
}

// verdict is the answer to all questions at a moment.
type verdict struct {
	started   bool
	stalled   []string // reasons to believe nothing the node said
	unhealthy []string // reasons for a restart, stalls included
	pulse     node.Pulse
}

func (h *Health) verdict(now time.Time) verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := verdict{started: h.started, stalled: h.stalls(now), pulse: h.pulse}
	v.unhealthy = append(v.unhealthy, v.stalled...)
	if !h.failing.IsZero() && now.Sub(h.failing) > failAfter {
		v.unhealthy = append(v.unhealthy, fmt.Sprintf("the host has not been as desired for %s, after %d attempts",
			round(now.Sub(h.failing)), h.pulse.FailingFor))
	}
	if late, is := overdue(h.pulse, now); is {
		v.unhealthy = append(v.unhealthy, fmt.Sprintf("renewal of lease %s is overdue by %s", h.pulse.Subnet, round(late)))
	}
	return v
}

// stalls lists what should have ended or begun by now and has not.
func (h *Health) stalls(now time.Time) []string {
	var reasons []string
	if !h.turning.IsZero() && now.Sub(h.turning) > stallAfter {
		return append(reasons, fmt.Sprintf("stalled: a decision takes %s", round(now.Sub(h.turning))))
	}
	if h.turning.IsZero() && !h.wake.IsZero() && now.Sub(h.wake) > stallAfter {
		reasons = append(reasons, fmt.Sprintf("stalled: the loop should have turned %s ago", round(now.Sub(h.wake))))
	}
	for _, e := range h.running {
		if took := now.Sub(e.since); took > e.limit+stallAfter {
			reasons = append(reasons, fmt.Sprintf("stalled: a %s takes %s", e.what, round(took)))
		}
	}
	return reasons
}

// overdue tells how late a renewal is, once half of the time between the
// renewal and the end of the lease has gone by: until then there is time for
// the datastore to come back.
func overdue(s node.Pulse, now time.Time) (time.Duration, bool) {
	if s.Expires.IsZero() || s.RenewBy.IsZero() {
		return 0, false
	}
	return now.Sub(s.RenewBy), now.After(s.RenewBy.Add(s.Expires.Sub(s.RenewBy) / 2))
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
