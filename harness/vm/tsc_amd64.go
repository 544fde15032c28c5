package vm

import "time"

// readTSC reads the time stamp counter, which an emulated CPU shares with the host.
func readTSC() uint64

// tscPeriod is how long tscKHz counts: the error is at most a few microseconds of it.
const tscPeriod = 50 * time.Millisecond

// tscKHz measures the frequency of the time stamp counter. The guest would measure it
// against an emulated timer, and on a busy host it would be wrong by a factor of two: so
// its clock would be.
func tscKHz() uint64 {
	started, from := time.Now(), readTSC()
	var passed time.Duration
	for passed < tscPeriod {
		passed = time.Since(started)
	}
	return (readTSC() - from) * uint64(time.Millisecond) / uint64(passed)
}
