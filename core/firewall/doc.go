// Package firewall defines the chains that a node wants in the packet filter.
// [Render] makes them from one template for both families and both flavours;
// [Decide] returns their verdict on a packet.
//
// The package is pure. A driver spells a chain for iptables or nftables and
// writes it into a kernel.
package firewall
