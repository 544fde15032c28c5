// Package firewall says which chains of the packet filter a node wants:
// [Render] makes them from one template for both families and both flavours,
// [Decide] tells what they do with a packet.
//
// The package is pure. How a chain is spelt for iptables or nftables, and how
// it gets into a kernel, is a driver's business; that both spellings mean the
// same follows from there being only one.
package firewall
