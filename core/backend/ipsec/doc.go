// Package ipsec carries packets in tunnels of ESP, whose keys an IKE daemon agrees on.
//
// A packet reaches a pod on a peer by these steps and objects:
//
//  1. The pod's packet from 10.5.1.7 to 10.5.3.9 is routed on its node, in general by the
//     default route: the backend has neither device nor routes (interop 6.6).
//  2. The kernel looks for the policy of the packet on its way out. The policy
//     "out 10.5.1.0/24 to 10.5.3.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11" has the
//     highest priority, and demands a tunnel between the two nodes.
//  3. The kernel finds the key of that tunnel, a security association with the number 11,
//     which charon has agreed on with the peer's charon. It encrypts the whole packet and
//     puts an outer IP header and ESP before it.
//  4. The peer finds the key by the number in the ESP header, decrypts the packet and
//     accepts it because its policy "fwd 10.5.1.0/24 to 10.5.3.0/24" names this very tunnel.
//
// So a peer needs three policies in the kernel, a shared key and a connection in charon.
//
// Without a key the packet of step 3 is dropped. Without the policy of step 2, as
// before the peer is known, the packet meets "out 10.5.0.0/16 to 10.5.0.0/16 block", which
// stands before all policies of peers and goes after them: no pod's packet leaves
// without encryption. The kernel also asks for a policy when it hands a decrypted packet
// to a pod, so packets into the node's own subnet have a policy that allows them.
package ipsec
