// Package nodelease defines the form of leases on Kubernetes node objects
// (interop 5.2, 5.4, 5.5): the subnet is the node's pod CIDRs, the attributes
// are annotations.
//
// A [Node] holds the parts of an object that matter, [Names] holds the names of
// the annotations, and a [Table] holds all nodes of a cluster as one node sees
// them. The package knows no API server: drivers/kube fills a table from a real
// one, drivers/sim from a simulated one, so both find the same leases and refuse
// the same records.
//
// Other programs write these objects, so nothing in them is trusted. An object
// with impossible values is set aside with the reason, and affects no other.
package nodelease
