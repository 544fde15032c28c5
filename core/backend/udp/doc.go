// Package udp carries packets through a process: a TUN device takes what is
// routed into the network, the process wraps each packet in a UDP datagram to
// the peer that has the destination, and unwraps what comes back. It needs no
// module of the kernel and one open port (interop 6.1).
//
// The package renders the device, its address and route, a proxy and its peers.
// Package udppath decides about each packet.
package udp
