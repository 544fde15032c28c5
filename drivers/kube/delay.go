package kube

import (
	"context"
	"math/rand/v2"
	"time"
)

// delay is a wait that doubles each time, jittered so that the nodes of a
// cluster drift apart.
type delay time.Duration

const (
	leastDelay = 100 * time.Millisecond
	mostDelay  = 15 * time.Second
)

func (d *delay) wait(ctx context.Context) { d.waitAtMost(ctx, mostDelay) }

func (d *delay) waitAtMost(ctx context.Context, most time.Duration) {
	*d = min(max(2**d, delay(leastDelay)), delay(most))
	sleep(ctx, time.Duration(*d)/2+time.Duration(rand.Int64N(int64(*d))))
}

// sleep reports whether it was left in peace.
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
