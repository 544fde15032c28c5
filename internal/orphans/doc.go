// Package orphans closes connections that no peer can answer any more, because
// they come from an address that the host has lost. The kernel keeps such a
// connection and continues to send until a timeout of many seconds. A daemon that
// has to publish its new address would wait that long.
//
// It acts only when it is called, and does not know what the connections carry.
package orphans
