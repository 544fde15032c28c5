package agent

import (
	"fmt"
	"sync"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
)

// The limits beyond which the daemon is unhealthy and a supervisor restarts it.
const (
	// stallAfter is the longest delay of a turn of the loop.
	stallAfter = 15 * time.Second
	// failAfter is the longest time without the desired state on the host. It
	// gives an operator time to fix a mistake; a restart would not help then.
	failAfter = 5 * time.Minute
)

// Health holds the state of a run and answers supervisors from it
// (interop 9: the health endpoints). The zero Health is ready to use. Several
// goroutines may use it at once.
type Health struct {
	Version string // of the program, for the status
	Network string // of the node; "" for the unnamed one

	mu      sync.Mutex
	started bool       // the loop has turned at least once
	turning time.Time  // start of the Step under way; zero: none
	wake    time.Time  // latest time of the next turn; zero: no limit
	running []effect   // effects under way
	failing time.Time  // since then no diff was empty; zero: the last one was
	since   time.Time  // since then the node is not ready; zero: it is
	pulse   node.Pulse // as of the last turn

	memory memory // the last events

	last node.Status                       // the last known one
	ask  func(question func(machine)) bool // asks the node; nil: there is none yet
}

// stepping notes that a turn of the node has begun.
func (h *Health) stepping(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started, h.turning = true, now
}

// waiting notes that a turn has ended, with the node's pulse.
func (h *Health) waiting(wake time.Time, running []effect, p node.Pulse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.FailingFor == 0:
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = h.turning
	}
	switch {
	case p.Phase == node.PhaseReady:
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = h.turning
	}
	if p.Phase != h.pulse.Phase {
		h.memory.add(control.Event{At: time.Now(), Kind: control.PhaseKind, Level: levelNames[node.Info],
			Text: p.Phase.String()}, p.Phase.String())
	}
	h.turning, h.wake = time.Time{}, wake
	h.running, h.pulse = running, p
}

// verdict holds the answers of the health endpoints at one moment.
type verdict struct {
	started   bool
	stalled   []string  // reasons to distrust the last pulse
	unhealthy []string  // reasons for a restart, stalls included
	since     time.Time // since then the node is not ready; zero: it is
	pulse     node.Pulse
}

func (h *Health) verdict(now time.Time) verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := verdict{started: h.started, stalled: h.stalls(now), since: h.since, pulse: h.pulse}
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

// stalls lists the overdue turns and effects.
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

// overdue returns the delay of a renewal, and true once half of the time from
// the planned renewal to the end of the lease has passed. Until then the
// datastore may still come back in time.
func overdue(s node.Pulse, now time.Time) (time.Duration, bool) {
	if s.Expires.IsZero() || s.RenewBy.IsZero() {
		return 0, false
	}
	return now.Sub(s.RenewBy), now.After(s.RenewBy.Add(s.Expires.Sub(s.RenewBy) / 2))
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
