// Package underlay keeps the uplink of a node: the interface and the addresses by which it reaches other hosts.
//
// A [Machine] owns the choice in use, the memory that led to it, and why it is not in order. It is given the [Facts] of
// a look, and chooses again when [Machine.Due] says so: after other facts, another config, or when time alone may
// change the choice. While the uplink in use is not in order, because its address is gone or being changed, it stays in
// force.
//
// It gives the uplink as peers see it ([Machine.Uplink]), what a restart has to know ([Machine.Memory]), and the notes
// for a status. The choice itself is package uplink's. The machine touches no other part of the node.
package underlay
