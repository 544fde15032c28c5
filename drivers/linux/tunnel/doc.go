// Package tunnel carries packets between a TUN device and a UDP socket, for the
// udp backend (interop 6.1). Package udppath decides what happens to a packet; this
// package moves it in and out, in one of two tiers: plain, which moves one packet with
// each call and works everywhere, and gso, in which one call moves dozens of packets
// of the wire.
//
// A Tunnel has one goroutine, which ends with it or with its device. In the
// steady state that goroutine allocates nothing and takes no lock for a packet.
// It makes its system calls without telling Go's scheduler, since none of them
// blocks: every descriptor is non-blocking, and waiting is a separate call.
//
// Everything acts on the network namespace of the calling thread. Nothing here
// sets addresses, routes or the state of links.
package tunnel
