// Package etcd keeps leases in etcd, as interop section 3 lays them out. Its
// [Store] is a [lease.Store]; who takes which subnet is decided elsewhere.
//
// The store reads everything with one request, then follows the changes on one
// watch stream. Whatever ends the stream (a lost connection, a compaction, no
// leader, silence) leads back to that one request, so that no event can be
// missed: what the store hands out is always a whole snapshot.
//
// It drives the watch stream itself instead of using the client library's
// Watcher. That one hides a lost connection and resumes at the revision it saw
// last. A datastore that lost its data meanwhile has not reached that revision
// yet, so the watch would wait there in silence, and nobody would ever learn
// that the leases are gone, nor that the store was unreachable in between.
//
// Records are data from strangers. One that does not decode is set aside with
// the reason and touches no other (interop E1). The package never writes what
// it could not read back, and never changes a record but by compare-and-swap.
package etcd
