// Package udppath is the packet path of the udp backend: what happens to a packet
// between the TUN device and the UDP socket, in both directions, decided on its
// bytes (interop 6.1). It knows neither of the two. Whoever carries the packets,
// one a call or many, asks it about each, so that every way to carry them, and
// the simulator, emits the same bytes.
//
// It has no goroutines, no locks and no clock, and allocates nothing for a
// packet. What it is given may be any bytes at all: it reads no further than
// they go, and has a [Reason] for each packet that it does not carry.
//
// # One packet through
//
// Node A has subnet 10.5.1.0/24 and address 192.168.64.1, node B has 10.5.2.0/24
// and 192.168.64.2. A pod on A, 10.5.1.7, sends to 10.5.2.9 on B.
//
//  1. A's kernel routes the packet into the TUN device, since the whole network
//     lies behind that. The device's MTU leaves room for the outer headers, so the
//     kernel has cut what was too large, or told the pod.
//  2. The driver reads it and asks [Path.Send]. The header must be one: version,
//     lengths, checksum. The [Table] finds the peer: the longest prefix that holds
//     10.5.2.9 is B's lease. Had there been none, the answer would be an ICMP
//     error for the driver to write back into the device.
//  3. The packet has passed a router, so its TTL goes down by one. Nothing but TTL
//     and header checksum changes.
//  4. The verdict is to transmit to 192.168.64.2. The driver sends the packet, with
//     no header of ours before it, as the payload of one datagram.
//  5. B's driver asks [Path.Receive] about the payload and the address that it came
//     from. Anybody may send to an open port. So the source, 10.5.1.7, must lie in
//     a lease, and that lease must be of 192.168.64.1; and the packet must be for
//     B's own subnet. Nobody gets an answer who is not believed.
//  6. The TTL goes down once more: two routers, two hops, as with upstream, which
//     the traceroute of a user shows. Where it ends here, the sender is told so by
//     a packet like any other, from B's device to the pod, which travels back to A
//     in a datagram.
//  7. The verdict is to deliver: B's driver writes the packet into its device, and
//     B's kernel routes it to the pod.
//
// # Many packets through
//
// A kernel with offloads takes and gives more than one packet at a time. A TUN
// device then hands over up to 64 KiB that TCP or UDP left whole, with a [Vnet]
// header that says how large the pieces must be. Routing and TTL are the same,
// once for all of them. Then a [Splitter] cuts: for each piece it writes headers
// into memory of the driver's, and points at the payload where it lies. A
// [Message] says how many such packets one call with UDP_SEGMENT can carry. On the
// wire they are datagrams as any others.
//
// On the way back, UDP_GRO hands over many datagrams at once. Each is asked about
// on its own; then a [Joiner] makes one packet of those that follow each other in
// one flow, again without touching the payload, but never of one whose checksum is
// wrong: what it joins, the kernel believes.
//
//	TUN ─► Path.Send ─► Splitter ─► Message ─► socket
//	TUN ◄─ Joiner ◄──────────── Path.Receive ◄─ socket
package udppath
