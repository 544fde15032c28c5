// Package trace follows a packet through one host: it asks the kernel what it would do
// with the packet at each step, and says where the packet would end, why, and what to do.
//
// A packet between two pods takes these steps. Each is a [Hop]:
//
//	arrive     the device on which it comes in, or this host itself
//	ingress    what the device itself does to packets that come in
//	prerouting the rules at that hook
//	forward    whether the host forwards packets
//	route      the kernel's choice of a device and a gateway
//	filter     the rules at the hook forward, or output, or input
//	postrouting, egress
//	           the rules at those hooks, and what the device does to packets that leave
//	policy     what IPsec requires
//	device     whether the device is up, and takes a packet of that size
//	neighbour  the gateway's MAC
//	tunnel     the host behind the tunnel, and the packet with its outer headers
//	underlay   the route of the outer packet
//	leave      where it leaves this host
//
// Nothing is sent. To ask the kernels of other hosts, run the command there: it traces an
// arriving packet like any other, and recognises it by its source, which is elsewhere.
//
// [Walk] is pure: the answers come from a [Kernel].
package trace
