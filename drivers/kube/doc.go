// Package kube keeps leases on Kubernetes node objects (interop section 5:
// annotations and pod CIDRs). Its [Store] is a [lease.Store] that assigns the
// subnets itself: they are the nodes' pod CIDRs.
//
// The store reads all nodes, by a streaming list where the API server has it
// and else in chunks, and follows them on one watch. It decodes only the fields
// that make a lease, out of protobuf, and skips all others unread; a heartbeat
// leaves no difference, and wakes no reader. After the end of a watch the next
// one resumes at the same revision. If the API server no longer has that
// revision (410 Gone), the store reads all nodes again, and the last snapshot
// stands until then. After each watch that ends early, the next attempt waits
// longer.
//
// The network config is a file, a mounted ConfigMap, which is read at
// intervals.
//
// The store writes annotations and one condition of its own node, in patches
// of the status subresource that hold only differences. Package nodelease
// defines the meaning of the annotations. Kubernetes assigns the subnets.
//
// What an operator must know becomes an event of the node object ([Notice]).
// Nothing depends on whether it is written.
package kube
