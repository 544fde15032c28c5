// Package sim is a world in memory: hosts with a kernel's tables, wires that
// carry real packets, pods, faults, and a clock that only moves when nothing
// is left to do.
//
// A [World] runs in one thread. Everything that happens is an event, events run
// in the order (time, sequence), chance comes from streams forked off one seed
// by label. So the same seed gives the same run, and [World.TraceHash] tells
// whether it did.
//
// A [Host] implements core/driver.Lane; it passes the same conformance cases
// as the driver for Linux, with expectations recorded from Linux.
//
// The package imports nothing of flannel but core, reads no clock, starts no
// goroutine and lets no map order reach an event. A World is not safe for
// concurrent use: everything happens inside [World.Run] or between two runs.
package sim
