// Package simbench measures the simulator at the size of large clusters: the
// virtual time and the events in a second of real time, and the memory of the
// cluster.
//
// It holds benchmarks only; `make bench` runs them and docs/benchmarks.md keeps
// the results. Nothing here asserts a time: a benchmark fails only if the measured
// work did not happen.
package simbench
