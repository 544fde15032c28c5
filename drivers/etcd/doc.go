// Package etcd keeps leases in etcd, in the layout of interop section 3. Its
// [Store] is a [lease.Store]; package node chooses the subnets.
//
// The store reads everything with one request, then follows the changes on one
// watch stream. When the stream ends, one small request tells whether the next
// one can continue at the same revision. It cannot if that revision has been
// compacted, or if etcd holds another history: it was wiped, restored from a
// backup, or replaced. Then the store reads everything again, so that no event
// can be missed: the store always hands out a whole snapshot. Nodes that do so
// at the same time spread their reads over a period that grows with their number.
//
// The store drives the watch stream itself instead of using the client library's
// Watcher, which hides a lost connection and resumes at the last revision. A
// datastore that lost its data meanwhile has not reached that revision yet, so
// the watch would wait there silently, and the store would learn neither of
// the lost leases nor of the outage in between.
//
// Records are foreign data. One that does not decode is set aside with the
// reason and affects no other record (interop E1: one such record makes every
// upstream node drop all peers). The package never writes a value that it could
// not read back, and changes a record only by compare-and-swap.
package etcd
