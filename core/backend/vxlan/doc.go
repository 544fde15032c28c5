// Package vxlan carries packets in VXLAN (RFC 7348), with one device for each
// family.
//
// A packet reaches a pod on a peer by these steps and objects:
//
//  1. The pod's packet to 10.5.3.7 is routed on its node. The route
//     "10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink" sends it to the vxlan
//     device, with the peer's device address as next hop. It is onlink, because
//     none of our addresses covers that next hop.
//  2. The device needs the next hop's MAC. It does not ask by ARP: the permanent
//     neighbour "10.5.3.0 lladdr <VtepMAC>" holds it.
//  3. The vxlan driver looks the frame's destination MAC up in its forwarding
//     table: the permanent entry "<VtepMAC> dst 192.168.64.4" names the host.
//  4. The kernel wraps the frame in UDP, from the device's local address, and
//     routes the datagram through the uplink.
//  5. The peer finds the device by port and VNI, unwraps, and as the frame
//     carries its own device's MAC, routes the inner packet to the pod.
//
// So a peer needs three objects, each useless without the later ones. With
// DirectRouting a peer on the same segment needs only one route.
//
// While the port changes, the device of the previous port is called fl.<VNI>.<port>.
package vxlan
