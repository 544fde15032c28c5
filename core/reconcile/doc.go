// Package reconcile plans how to turn the observed state of a host into the
// desired one: [Diff] is a pure function from two states to an ordered plan.
//
// The order of a plan keeps packets flowing. Renamed links come first, with
// everything that is on them. Objects come before the objects
// that need them (IPsec policy, link, sysctl, address, proxy and its peers,
// WireGuard peer, FDB entry, neighbour, next hop, route), existing objects are
// replaced in place, and unwanted ones go last and in the reverse order. So a
// packet always finds the old path or the new one.
package reconcile
