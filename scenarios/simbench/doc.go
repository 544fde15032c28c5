// Package simbench measures the simulator at the size of large clusters: how
// much virtual time passes in a second of ours, how many events that is, and
// how much memory the cluster takes.
//
// It holds benchmarks only; `make bench` runs them and docs/benchmarks.md keeps
// what was measured. Nothing here asserts a time: a benchmark fails only if
// what it measures did not happen.
package simbench
