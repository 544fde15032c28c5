// Package ipip carries IPv4 packets in IPv4 packets (RFC 2003).
//
// A packet reaches a pod on a peer by these steps and objects:
//
//  1. The pod's packet to 10.5.3.7 is routed on its node. The route
//     "10.5.3.0/24 via 192.168.64.4 dev flannel.ipip onlink" sends it to the
//     tunnel device, with the peer's public address as next hop.
//  2. The device has no remote address, so the kernel uses the next hop as the
//     other end. It puts a second IP header in front of the packet, from the device's
//     local address, and routes the result through the uplink.
//  3. The peer finds the device by its local address, removes the outer header,
//     and routes the inner packet to the pod.
//
// So a peer needs one object, its route. With DirectRouting a peer on the same
// segment is reached without the outer header.
//
// The outer packet has the inner packet's TTL and DF, so the path carries it as
// it would carry the inner packet. The kernel's own tunl0 is left alone
// (interop 6.4).
package ipip
