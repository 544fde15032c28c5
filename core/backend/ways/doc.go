// Package ways composes the backends by which a node reaches its peers while the
// backend of a cluster changes.
//
// A way is an opened backend together with its identity: the type and the options on
// which two nodes must agree, such as the VNI of vxlan. A [Set] holds the present way,
// which the network config names, and the former ways, from which the node comes. It is
// itself a backend: it renders the objects of all its ways, so that a node receives
// packets by each of them, and one route for each peer, by the first way that the
// peer's record offers.
//
// A record offers the way that it is written for, and those in its lease.Ways. A
// node that changes from vxlan to host-gw goes through these steps, at its own pace:
//
//  1. It makes the objects of host-gw beside those of vxlan. Its record still
//     offers vxlan alone.
//  2. Its record offers host-gw, and vxlan as a former way. To each peer that
//     offers host-gw it sends by host-gw, to the others by vxlan. It sends by a way
//     that needs keys of both nodes, such as wireguard, once these were exchanged.
//  3. All peers offer host-gw. Its record says that it sends to no peer by vxlan.
//  4. All peers say so too, or do not offer vxlan any more. It deletes the objects
//     of vxlan, and its record offers host-gw alone.
//
// Two ways may need one device name, such as vxlan with two ports. Then the present way
// has it, and the devices of the former one have other names: see [backend.Asider]. The modes of
// wireguard use one device at once: see [backend.Spec.SharesDevices].
//
// Each step depends on nothing but the host, the records and the node's own former
// ways, so it can be repeated after a crash, and taken back if the config goes back.
package ways
