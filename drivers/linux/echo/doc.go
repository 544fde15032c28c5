// Package echo sends probes from Linux, as package probe asks for them: ICMP echo
// requests by raw sockets, and TCP connections. It also listens for the echo requests
// of other daemons.
//
// It needs CAP_NET_RAW, and sends from the network namespace of the process.
package echo
