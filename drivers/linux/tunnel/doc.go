// Package tunnel carries packets between a TUN device and a UDP socket, for the
// udp backend (interop 6.1). What becomes of a packet is decided by package
// proxy; how it gets in and out is decided here, by one of two tiers: plain, one
// packet a call, which works everywhere, and gso, which takes from the kernel and
// gives to it what is dozens of packets on the wire, in one call.
//
// A Tunnel has one goroutine, which ends with it or with its device. In the
// steady state that goroutine allocates nothing and takes no lock for a packet.
// It makes its system calls without telling Go's scheduler, since none of them
// waits: every descriptor is non-blocking, and waiting is a call of its own.
//
// Everything acts on the network namespace of the calling thread. Nothing here
// sets addresses, routes or the state of links.
package tunnel
