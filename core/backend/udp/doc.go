// Package udp carries packets through a process. A TUN device takes the packets
// that are routed into the network; the process wraps each in a UDP datagram to
// the peer that has the destination, and unwraps the datagrams of peers. It
// needs no kernel module except tun, and one open port (interop 6.1).
//
// The package renders the device, its address and route, the packet path
// ([dataplane.Proxy]) and its peers. Package udppath decides about each packet.
//
// While the port changes, the device of the previous port is called fl.udp.<port>, and its packet path runs on.
package udp
