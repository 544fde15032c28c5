package agent

import "time"

// The rate at which signals of one stream cause turns: a burst at once, then one
// each pace. A storm of 5,000 changes would otherwise cost 5,000 snapshots of
// 5,000 leases; the few signals of a start do not wait.
const (
	pace  = 50 * time.Millisecond
	burst = 5
)

// paced is a stream of signals that limits their rate. A signal that comes too
// early waits in its channel.
type paced struct {
	from <-chan struct{}
	next time.Time // the earliest time of the next signal
}

// open returns the channel to receive from, or nil if it is too early.
func (p *paced) open(now time.Time) <-chan struct{} {
	if now.Before(p.next) {
		return nil
	}
	return p.from
}

// taken counts a signal against the rate. An idle stream saves up to a burst.
func (p *paced) taken(now time.Time) {
	if saved := now.Add((1 - burst) * pace); p.next.Before(saved) {
		p.next = saved
	}
	p.next = p.next.Add(pace)
}

// earliest returns the first of the moments after now, or zero if there is none.
func earliest(now time.Time, moments ...time.Time) time.Time {
	var first time.Time
	for _, m := range moments {
		if m.After(now) && (first.IsZero() || m.Before(first)) {
			first = m
		}
	}
	return first
}
