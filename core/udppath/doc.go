// Package udppath is the packet path of the udp backend (interop 6.1). From a
// packet's bytes it decides the fate of the packet between the TUN device and the
// UDP socket, in both directions, and knows neither. Every driver asks it about
// each packet, so all of them, and the simulator, emit the same bytes.
//
// It has no goroutines, no locks and no clock, and allocates nothing for a
// packet. It accepts any bytes as input, and has a [Reason] for each packet that
// it does not carry.
//
// # One packet through
//
// Node A has subnet 10.5.1.0/24 and address 192.168.64.1, node B has 10.5.2.0/24
// and 192.168.64.2. A pod on A, 10.5.1.7, sends to 10.5.2.9 on B.
//
//  1. A's kernel routes the packet into the TUN device, to which the route of the
//     whole network leads. The device's MTU leaves room for the outer headers, so the
//     kernel has fragmented a larger packet, or told the pod.
//  2. The driver reads it and asks [Path.Send], which checks version, lengths and
//     checksum of the header. The [Table] finds the peer: the longest prefix that
//     holds 10.5.2.9 is B's lease. Without one, the driver would write an ICMP
//     error back into the device.
//  3. The packet has passed a router, so its TTL goes down by one. Nothing but TTL
//     and header checksum changes.
//  4. The verdict is to transmit to 192.168.64.2. The driver sends the packet,
//     without a header of flannel, as the payload of one datagram.
//  5. B's driver asks [Path.Receive] about the payload and its sender. Any host
//     may send to an open port. So the source, 10.5.1.7, must lie in a lease, that
//     lease must belong to 192.168.64.1, and the packet must be for B's own
//     subnet. A datagram that fails these checks gets no answer.
//  6. The TTL goes down once more: traceroute shows two hops, as with upstream. If
//     the TTL ends here, an ICMP error from B's device to the pod travels back to A
//     in a datagram, like any packet.
//  7. The verdict is to deliver: B's driver writes the packet into its device, and
//     B's kernel routes it to the pod.
//
// # Many packets through
//
// A kernel with offloads takes and gives several packets at a time. A TUN device
// then hands over up to 64 KiB that TCP or UDP has not cut, with a [Vnet] header
// that holds the size of the pieces. Path.Send decides once for all of them. Then
// a [Splitter] cuts: for each piece it writes headers into memory of the driver,
// and points at the payload in place. A [Message] counts the packets that one call
// with UDP_SEGMENT can carry. On the wire they are ordinary datagrams.
//
// In the other direction, UDP_GRO hands over many datagrams at once. Path.Receive
// decides about each; then a [Joiner] makes one packet of those that follow each
// other in one flow, again without moving the payload. It never joins a packet
// with a wrong checksum, since the kernel trusts joined packets.
//
//	TUN ─► Path.Send ─► Splitter ─► Message ─► socket
//	TUN ◄─ Joiner ◄──────────── Path.Receive ◄─ socket
package udppath
