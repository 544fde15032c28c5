package kube

import (
	"math/rand/v2"
	"time"
)

// delay is a wait that doubles each time. It is jittered, so that the nodes of
// a cluster drift apart.
type delay time.Duration

const (
	leastDelay = 100 * time.Millisecond
	mostDelay  = 15 * time.Second
)

// steady is how long a watch has to live for its end not to count as a failure.
// Only then is the next wait short again, so that a server that ends watches
// early, in whatever way, gets at most a few requests a minute from each node.
const steady = time.Minute

// next returns how long to wait this time: the delay, more or less by half.
func (d *delay) next(most time.Duration) time.Duration {
	*d = min(max(2**d, delay(leastDelay)), delay(most))
	return time.Duration(*d)/2 + time.Duration(rand.Int64N(int64(*d)))
}
