// Package ipsec carries packets in ESP tunnels, whose keys an IKE daemon negotiates.
//
// A packet reaches a pod on a peer by these steps and objects:
//
//  1. The pod's packet from 10.5.1.7 to 10.5.3.9 is routed on its node, usually by the
//     default route: the backend has no device and no routes (interop 6.6).
//  2. The kernel looks for an outbound policy. The policy
//     "out 10.5.1.0/24 to 10.5.3.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11" has the
//     highest priority, and requires a tunnel between the two nodes.
//  3. The kernel finds the security association (SA) of that tunnel, with reqid 11,
//     which charon has negotiated with the peer's charon. It encrypts the whole packet and
//     puts ESP and an outer IP header in front of it.
//  4. The peer finds the SA by the SPI in the ESP header, decrypts the packet and
//     accepts it because its policy "fwd 10.5.1.0/24 to 10.5.3.0/24" names this tunnel.
//
// So a peer needs three policies in the kernel, a shared key and a connection in charon.
//
// Without an SA, step 3 drops the packet. Without the policy of step 2, for example
// before the peer is known, the packet meets "out 10.5.0.0/16 to 10.5.0.0/16 block", which
// is created before all policies of peers and deleted after them: no pod's packet leaves
// unencrypted. The kernel also looks for a policy when it hands a decrypted packet
// to a pod, so a further policy allows packets into the node's own subnet. On a
// node without pods, and so without a bridge, a blackhole route of the worst metric drops
// them: the default route would lead them out of the host again.
package ipsec
