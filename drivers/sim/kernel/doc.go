// Package kernel is the network of a simulated world: hosts with the tables of a
// Linux kernel, wires that carry real packet bytes, pods, and faults.
//
// A [Network] holds hosts and segments. A [Host] hands out the lanes that the core
// works with ([Host.Driver], [Host.Firewall]); they pass the same conformance cases
// as drivers/linux, with expectations recorded from Linux. A packet is routed,
// filtered, resolved, encapsulated, routed again outside, carried and
// decapsulated, and each way to lose it has a name ([Drop]).
//
// The package imports only the interfaces and values of core.
package kernel
