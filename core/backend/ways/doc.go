// Package ways composes the backends that a node runs while the backend of a cluster changes.
//
// A way is an opened backend together with its identity: the type and the options on
// which two nodes must agree, such as the VNI of vxlan. A [Set] holds the present way,
// which the network config names, and the former ones, which the node keeps. It is
// itself a backend: it renders the objects of all its ways, so that a node receives
// packets by each of them, and one route for each peer.
//
// Records are claims of other nodes. A record offers the way that it is written for, and
// those in its lease.Ways. That decides only how to send to the subnet of the record, and the
// packets go by a way that this node has: by one that encrypts, if both have one. Which ways
// a node has, and how long, package node decides from the network config and the node's memory.
//
// A former way ends in two steps. First it only receives, while the node's record no longer offers it
// (see [Set.Ending]). Then it goes.
//
// Two ways may need one device name, such as vxlan with two ports. Then the present way
// has it, and the devices of the former one have other names: see [backend.Asider]. The modes of
// wireguard use one device at once: see [backend.Spec.SharesDevices].
package ways
