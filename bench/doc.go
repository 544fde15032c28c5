// Package bench measures whole nodes in large clusters: how long a node takes to
// program thousands of peers, how much it costs to keep looking at them, and how
// long many nodes take to get their subnets.
//
// It holds benchmarks only. They run real daemons on the real kernel in the
// netns lab of package harness, or the same core inside the benchmark's
// process where allocations are counted. docs/benchmarks.md explains each and
// keeps the results; `make bench` runs them.
//
// Benchmarks of one package live in that package: the kernel in drivers/linux,
// reading etcd in drivers/etcd, the core in core/node. No benchmark asserts a
// time; it fails only if the event that it measures did not happen.
package bench
