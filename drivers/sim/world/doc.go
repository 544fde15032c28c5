// Package world is virtual time: one thread, a queue of events, a clock that
// moves only when no event is due, and chance derived from a seed.
//
// Events run in the order (time, sequence). Chance comes from one stream for each
// label, derived from the seed, so one more fault does not shift the others. Every
// event and note is folded into a hash: the same seed gives the same run, and
// equal values of [World.TraceHash] prove it.
//
// The package knows nothing about flannel, reads no clock, starts no goroutine
// and lets no map order reach an event. A World is not safe for concurrent use:
// all work happens inside [World.Run] or between two runs.
package world
