// Package nodelease is the form that leases have on Kubernetes node objects
// (interop 5.2, 5.4, 5.5): the subnet is the node's pod CIDRs, the attributes
// are annotations.
//
// [Node] is what is read of an object, [Names] how the annotations are called,
// [Table] all nodes of a cluster as the node itself sees them. The
// package knows no API server: drivers/kube fills a table from a real one,
// drivers/sim from a simulated one, so both find the same leases and refuse
// the same nonsense.
//
// Nodes are data from strangers. One that says something impossible is set
// aside with the reason and touches no other.
package nodelease
