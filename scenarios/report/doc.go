// Package report turns what happened in a scenario into one HTML page that
// explains itself: what went wrong in plain words, and below it a timeline to
// scrub, the topology, the lost packet's way and what parted each node from
// what it should have been.
//
// A [Recorder] takes observations from either world, simulated or real,
// and keeps changes only; [Recorder.Finish] makes them a [Recording], and
// [Write] a page of it. The page is self-contained and asks the network for
// nothing.
//
// The package knows no world and no session; times are those that its caller
// gives, since the beginning of the world.
package report
