package remote

import (
	"context"
	"math/rand/v2"
	"time"
)

// The delays before a retry.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 5 * time.Second
	jitter     = 0.2 // of the delay, up or down: nodes that failed together do not retry together
)

// delay doubles from attempt to attempt. The zero value starts anew.
type delay time.Duration

// wait sleeps for the next delay. It returns false if ctx ended first.
func (d *delay) wait(ctx context.Context) bool {
	*d = min(max(*d*2, delay(firstDelay)), delay(lastDelay))
	return sleep(ctx, time.Duration(float64(*d)*(1+jitter*(2*rand.Float64()-1))))
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
