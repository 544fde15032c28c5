// Package world is virtual time: one thread, a queue of events, a clock that
// moves only when nothing is left to do, and chance that follows from a seed.
//
// Events run in the order (time, sequence). Chance comes from streams forked off
// the seed by label, so one more fault does not shift the others. Everything that
// happens is folded into a hash: the same seed gives the same run, and
// [World.TraceHash] tells whether it did.
//
// The package knows nothing of flannel, reads no clock, starts no goroutine and
// lets no map order reach an event. A World is not safe for concurrent use:
// everything happens inside [World.Run] or between two runs.
package world
