// Package lease holds what nodes tell each other through a datastore: the
// [Lease] of a subnet with its [Attrs], the wire form of both, the immutable
// [Snapshot] of all of them, and the [Store] interface that a datastore
// implements.
//
// The package decides nothing: who takes which subnet is package alloc's and
// package node's business, how a record reaches a datastore is a driver's.
package lease
