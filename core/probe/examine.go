package probe

import (
	"math/rand/v2"
	"time"
)

// Examine examines one target now, and returns its result. Send sends a packet and
// waits for its answer; now tells the time, and wait lets it pass.
func Examine(
	t Target, send func(Request) Answer, now func() time.Time, wait func(time.Duration),
) (r Result, unable string) {
	p := New(1, rand.New(rand.NewPCG(0, 0))) // nothing is drawn: there is one target, and one interval
	p.grace, p.gap = 0, time.Second/Rate
	p.Watch(now(), []Target{t})
	for {
		if d := p.Wake().Sub(now()); d > 0 {
			wait(d)
		}
		request, due := p.Due(now())
		if !due {
			continue
		}
		answer := send(request)
		answer.ID = request.ID
		p.Answered(now(), answer)
		r, _ = p.Result(t.Subnet)
		if r.Finding != Unknown || answer.Unable != "" {
			return r, answer.Unable
		}
	}
}
