// Package transition decides which backends a node uses while its cluster changes from one backend to another.
//
// A [Machine] owns the set of backends in use, the moments of the change, and what the node has learnt about it:
// which backends the host cannot have, and which peers have followed to an encrypting one.
//
// It is given the network config ([Machine.Adopt]), the node's memory ([Saved]), and with each call the [Facts] of the
// moment: the node's own record, the records of the peers, the host, and its packet filter. Which backends are in use
// follows from the config and the memory alone. Records of peers decide only how to send to their subnets.
//
// It gives the set of backends, with their roles ([Machine.Set]), the attributes to publish ([Machine.Publish]), the
// packets that the filter must keep out ([Machine.Guards]), what a status shows ([Machine.Change]), and the next moment
// at which time alone goes on ([Machine.Wake]). A call that changes the set says so by a [Changed]; the caller then
// renders the host again. The machine touches no other part of the node.
//
//	config names B ─► A and B in use, it offers A ─► B's devices exist: it offers both
//	                                                      │ the operator or the limit ends A
//	        B alone ◄─ a minute later A's devices go ◄─ it offers B
//
// The composition of several backends into one is package backends.
package transition
