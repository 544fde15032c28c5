// Package leasetest holds the cases that every [lease.Store] passes: what the
// comments of the interface promise, as seen by a node and by an operator.
//
// The cases know no datastore. A [Harness] brings an empty one, opens stores
// on it, stands in for an operator who writes whatever he likes, and knows how
// to let time pass: in the simulator time is virtual, elsewhere it takes its
// time. Nothing here measures how long anything takes; what must outlive a TTL
// is compared with a witness that does not.
package leasetest
