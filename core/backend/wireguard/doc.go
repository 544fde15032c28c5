// Package wireguard carries packets in encrypted WireGuard tunnels.
//
// A packet reaches a pod on a peer by these steps and objects:
//
//  1. The pod's packet to 10.5.3.7 is routed on its node. The route
//     "10.5.0.0/16 dev flannel-wg scope link" sends every packet for another node
//     to the device. The node's own pods match a longer prefix.
//  2. The device finds the peer by the destination: the one whose allowed IPs
//     cover it. A destination behind no peer is refused.
//  3. If the device has no session with the peer, it makes one with a handshake of two
//     packets. Then it encrypts the packet and sends it over UDP to the peer's
//     endpoint.
//  4. The peer finds the session by an index in the packet, decrypts it, and accepts
//     it only if its source is among the allowed IPs of that peer: a peer cannot
//     send in another's name.
//  5. It remembers the outer source address as the endpoint, so a peer behind NAT
//     may move.
//
// So a node needs a device, one route for each family, and one object for each peer.
//
// A record publishes the public key and the port (interop 6.5). The private key
// stays in a file of the node, and a pre-shared key in the config: objects name them.
//
// If the kernel has no WireGuard, the daemon's process runs an implementation on a
// TUN device.
package wireguard
