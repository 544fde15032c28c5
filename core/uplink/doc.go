// Package uplink chooses the uplink, or external interface, and the addresses
// through which a node reaches its peers (interop section 8), and looks
// destinations up in the underlay's routes. It is a pure function of the flags
// and the host's facts.
package uplink
