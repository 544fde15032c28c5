package agent

import "time"

// pace is the least time between two turns that the same stream brings about.
// A storm of 5,000 changes costs 5,000 snapshots of 5,000 leases otherwise; a
// lone change is not held up.
const pace = 50 * time.Millisecond

// paced is a stream of signals, taken no faster than the pace. A signal that
// comes too early waits in its channel.
type paced struct {
	from <-chan struct{}
	next time.Time // nothing is taken before
}

// open returns the channel to receive from; nil: not now.
func (p *paced) open(now time.Time) <-chan struct{} {
	if now.Before(p.next) {
		return nil
	}
	return p.from
}

func (p *paced) taken(now time.Time) { p.next = now.Add(pace) }

// earliest is the first of the moments that are yet to come; zero: none is.
func earliest(now time.Time, moments ...time.Time) time.Time {
	var first time.Time
	for _, m := range moments {
		if m.After(now) && (first.IsZero() || m.Before(first)) {
			first = m
		}
	}
	return first
}
