// Package networks holds what the networks of one host have to agree about when one
// process runs several of them, each with a node of its own: [ParseNames] reads their names, a
// [Host] refuses a network that would collide with another one, and a [Filter] lets
// them share the chains of the packet filter.
//
// A node does not know the others. It learns from its view of the datastore whether
// the host can run its network ([lease.Beside]), and it sees the part of each chain that
// is its own.
//
// The package is pure, except that a Filter passes looks and ops on to a driver.
package networks
