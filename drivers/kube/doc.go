// Package kube keeps leases on Kubernetes node objects (interop section 5:
// annotations and pod CIDRs). Its [Store] is a [lease.Store] that assigns the
// subnets itself: they are the nodes' pod CIDRs.
//
// The store reads all nodes, in a streaming list if the API server supports that
// and otherwise in chunks, and follows them on one watch of their metadata; what
// these lack it reads of single nodes (partial.go). From protobuf it decodes
// only the fields that make a lease, and skips all others; a heartbeat makes no
// difference and wakes no reader. After the end of a watch the next
// one resumes at the same revision. If the API server no longer has that
// revision (410 Gone), the store reads all nodes again, and the last snapshot
// stays in force until then. After each watch that ends early, the next attempt waits
// longer.
//
// The network config is a file, a mounted ConfigMap, which is read at
// intervals.
//
// The store writes annotations and one condition of its own node, in patches
// of the status subresource that hold only differences. Package nodelease
// defines the meaning of the annotations. Kubernetes assigns the subnets.
//
// Conditions that an operator must know become events of the node object ([Notice]).
// Nothing depends on whether they are written.
package kube
