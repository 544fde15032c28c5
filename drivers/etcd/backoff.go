package etcd

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/flanneld/flannel/internal/pause"
)

// The delays before a retry (interop 3.8: watching).
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 5 * time.Second
	jitter     = 0.2 // of the delay, up or down: nodes that failed together do not retry together
)

// delay doubles from attempt to attempt. The zero value starts again.
type delay time.Duration

// wait sleeps for the next delay. It returns false if ctx ended first.
func (d *delay) wait(ctx context.Context) bool {
	*d = min(max(*d*2, delay(firstDelay)), delay(lastDelay))
	return pause.For(ctx, time.Duration(float64(*d)*(1+jitter*(2*rand.Float64()-1))))
}
