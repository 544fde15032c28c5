// Package identity tells the records of a node from those of other nodes.
//
// An [Identity] is a value: the addresses and leases that count as the node's own at a moment. The node builds it from
// its uplink, its lease and its memory, and the readers of records ask it. It decides nothing and remembers nothing.
package identity
