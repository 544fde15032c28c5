// Package firewall says which chains of the packet filter a node wants.
// [Render] makes them from one template for both families and both flavours;
// [Decide] says what they do with a packet.
//
// The package is pure. A driver spells a chain for iptables or nftables and
// writes it into a kernel.
package firewall
