// Package lease defines the records that nodes exchange through a datastore: the
// [Lease] of a subnet with its [Attrs], the wire form of both, the immutable
// [Snapshot] of all leases, and the [Store] interface that a datastore
// implements.
//
// The package decides nothing: packages alloc and node choose subnets, and a
// driver carries records to a datastore.
package lease
