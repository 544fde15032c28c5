// Package backends composes the backends that a node runs while the backend of a cluster changes.
//
// A [Set] holds the present backend, which the network config names, and the previous ones, which the node keeps, each
// with its identity: the type and the options on which two nodes must agree, such as the VNI of vxlan. It is
// itself a backend: it renders the objects of all its backends, so that a node receives
// packets by each of them, and one route for each peer.
//
// Records are claims of other nodes. A record offers the backend that it is written for, and
// those in its lease.Ways. That decides only how to send to the subnet of the record, and the
// packets go by a backend that this node has: by one that encrypts, if both have one. Which backends
// a node has, and how long, package transition decides from the network config and the node's memory.
//
// A previous backend ends in two steps. First it only receives, while the node's record no longer offers it
// (see [Role]). Then it goes.
//
// Two backends may need one device name, such as vxlan with two ports. Then the present backend
// has it, and the devices of the previous one have other names: see [backend.Asider]. The modes of
// wireguard use one device at once: see [backend.Spec.SharesDevices].
package backends
