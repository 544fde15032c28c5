// Package backend defines a backend, a way to carry packets between nodes: a
// pure function from the leases to the kernel objects that they need. Each
// folder below is one; package all chooses among them.
package backend
