// Package orphans finds out connections that can never be answered again,
// because they come from an address that the host has lost. The kernel keeps
// such a connection and goes on sending until a timeout of many seconds, and
// whoever has news of the address's change to tell waits as long.
//
// It looks when it is asked to, and knows nothing of what the connections carry.
package orphans
