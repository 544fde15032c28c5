// Package kube keeps leases on Kubernetes node objects, as interop section 5
// lays them out. Its [Store] is a [lease.Store] that assigns the subnets
// itself: they are the nodes' pod CIDRs.
//
// The store reads all nodes, by a streaming list where the API server has it
// and else in chunks, and follows them on one watch. Of each it decodes only what makes a
// lease, out of protobuf in which all else is skipped unread; a heartbeat
// leaves no difference, and wakes no reader. After the end of a watch the next one
// goes on at the same revision. If the API server no longer has that revision (410
// Gone), the store reads all nodes again, and the last snapshot stands until then.
// However a watch ends early, the next attempt waits longer than the one before.
//
// The network config is a file, a mounted ConfigMap, which is read at intervals.
//
// Of its own node the store writes annotations and one condition, in patches of the
// status subresource that hold only what differs. What an annotation means
// is package nodelease's business. Kubernetes assigns the subnets.
package kube
