// Package kube keeps leases on Kubernetes node objects, as interop section 5
// lays them out. Its [Store] is a [lease.Store] that assigns the subnets
// itself: they are the nodes' pod CIDRs.
//
// The store reads all nodes, by a streaming list where the API server has it
// and else in chunks, and follows them on one watch. Of each it decodes only what makes a
// lease, out of protobuf in which all else is skipped unread; a heartbeat
// leaves nothing that differs, and wakes nobody. A watch that ends goes on where
// it was; one that the API server has forgotten about (410 Gone) leads back to
// reading all nodes, and until that is done the last snapshot stands.
//
// Of its own node the store writes annotations and one condition, in patches of the
// status subresource that hold only what differs. What an annotation means
// is package nodelease's business, who takes which subnet is nobody's here.
package kube
