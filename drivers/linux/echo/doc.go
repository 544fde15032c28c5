// Package echo sends the probes that package probe asks for: ICMP echo
// requests over raw sockets, and TCP connections. It also listens for the echo requests
// of other daemons.
//
// It needs CAP_NET_RAW, and sends from the network namespace of the process.
package echo
