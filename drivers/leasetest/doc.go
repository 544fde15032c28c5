// Package leasetest holds the cases that every [lease.Store] passes. They check
// the promises in the comments of the interface, as a node and an operator see
// them.
//
// The cases know no datastore. A [Harness] brings an empty one, opens stores on
// it, writes arbitrary values as an operator may, and lets time pass, virtual or
// real. No case measures a duration: it compares a record that must outlive a
// TTL with one that must not.
package leasetest
