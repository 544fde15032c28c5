// Package reconcile closes the difference between what should be on a host and
// what is there: [Diff] is a pure function from two states to an ordered plan.
//
// The order of a plan keeps packets flowing. Objects come before the objects
// that need them (link, sysctl, address, proxy and its peers, FDB entry,
// neighbour, route), what exists is replaced in place, and what is no longer
// wanted goes last and in the reverse order. A packet thus always finds either
// the old way or the new.
package reconcile
