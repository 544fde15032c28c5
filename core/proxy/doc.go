// Package proxy is the packet path of the udp backend: what happens to a packet
// between the TUN device and the UDP socket, in both directions, decided on its
// bytes (interop 6.1). It knows neither of the two. Whoever carries the packets,
// one a call or many, asks it about each, so that every way to carry them, and
// the simulator, emits the same bytes.
//
// It has no goroutines, no locks and no clock, and allocates nothing for a
// packet. What it is given may be any bytes at all: it reads no further than
// they go, and has a [Reason] for each packet that it does not carry.
package proxy
