package vm

import "time"

// readTSC reads the time stamp counter, which an emulated CPU shares with the host.
func readTSC() uint64

// tscPeriod is the time over which tscKHz counts. Its error is at most a few
// microseconds.
const tscPeriod = 50 * time.Millisecond

// tscKHz measures the frequency of the time stamp counter. The guest would measure it
// against an emulated timer, and on a busy host the result, and so its clock, would be
// wrong by a factor of two.
func tscKHz() uint64 {
	started, from := time.Now(), readTSC()
	var passed time.Duration
	for passed < tscPeriod {
		passed = time.Since(started)
	}
	return (readTSC() - from) * uint64(time.Millisecond) / uint64(passed)
}
