// Package hostgw carries packets as they are: a route to each peer's subnet
// with the peer as gateway. All nodes must share one segment.
package hostgw
