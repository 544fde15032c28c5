// Package backend defines what a backend is: a way to carry packets between nodes, and
// a pure function from the leases to the kernel objects that they need. Each folder
// below holds one; package all lists them, and package ways combines several while a
// cluster changes from one to another.
//
// A [Spec] describes a type of backend and its options, a [Backend] renders. Peers'
// records are untrusted: [Peers] checks them, and a record that cannot be served is a
// [Problem] of that peer alone. The package knows no kernel.
package backend
