// Package bench measures a whole node at the size of large clusters: how long
// it takes to program thousands of peers, what it costs to keep looking at
// them, and how a crowd of nodes gets its subnets.
//
// It holds benchmarks only. They run real daemons on the real kernel in the
// netns lab of package harness, or the same core inside the benchmark's
// process where allocations are counted. docs/benchmarks.md explains each and
// keeps what was measured; `make bench` runs them.
//
// What concerns one package alone is measured there: the kernel in
// drivers/linux, reading etcd in drivers/etcd, the core's share in core/node.
// Nothing here asserts a time; a benchmark fails only if what it measures did
// not happen.
package bench
