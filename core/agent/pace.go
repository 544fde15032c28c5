package agent

import "time"

// How fast signals of one stream may bring about turns: a few at once, then
// one a pace. A storm of 5,000 changes would otherwise cost 5,000 snapshots of
// 5,000 leases; lone ones, such as those of a start, are not held up.
const (
	pace  = 50 * time.Millisecond
	burst = 5
)

// paced is a stream of signals, taken no faster than that. A signal that comes
// too early waits in its channel.
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

// taken uses up one pace, of which up to a burst are saved up.
func (p *paced) taken(now time.Time) {
	if saved := now.Add((1 - burst) * pace); p.next.Before(saved) {
		p.next = saved
	}
	p.next = p.next.Add(pace)
}

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
