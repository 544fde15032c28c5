package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// The waits before a retry (interop 3.8: watching).
const (
	FirstWait = 100 * time.Millisecond
	LastWait  = 5 * time.Second
	Jitter    = 0.2 // of the wait, up or down: nodes that failed together do not retry together
)

// Backoff doubles from retry to retry, from FirstWait to LastWait. The zero value starts again.
type Backoff time.Duration

// Wait waits before the next retry. It returns false if ctx ended first.
func (b *Backoff) Wait(ctx context.Context) bool {
	*b = min(max(*b*2, Backoff(FirstWait)), Backoff(LastWait))
	return For(ctx, time.Duration(float64(*b)*(1+Jitter*(2*rand.Float64()-1))))
}
