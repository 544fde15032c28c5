package world

import (
	"math/rand/v2"
	"time"
)

// Chance reports whether an event of this probability happens. It draws nothing
// for a probability of zero, so a world without faults is cheap.
func Chance(rng *rand.Rand, probability float64) bool {
	return probability > 0 && rng.Float64() < probability
}

// UpTo draws a duration below most.
func UpTo(rng *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(most)))
}
