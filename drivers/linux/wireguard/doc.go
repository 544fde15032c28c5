// Package wireguard runs WireGuard in this process, for hosts whose kernel has
// none: golang.zx2c4.com/wireguard does the protocol, and this package feeds it.
//
// A [Device] carries packets between a persistent TUN device and UDP sockets. It
// remembers nothing that the caller cannot read back, and it ends with its process
// or with its TUN device, which keeps addresses and routes meanwhile: packets to
// peers wait or are dropped there, and none leaves in the clear.
//
// # How the library is fed
//
// The library moves packets in batches between goroutines, one packet a buffer.
// Most of the time of a fast stream goes into system calls, copies and cache
// misses around the encryption, so both ends here avoid copies:
//
//   - queue is the TUN device. The kernel leaves up to 64 KiB of a stream whole,
//     and queue reads that straight into the buffers of the packets that it
//     becomes on the wire. It joins decrypted packets without moving them.
//   - bind is the sockets. It sends many packets as one message (UDP_SEGMENT) from
//     where they are, and receives many as one (UDP_GRO) straight into their
//     buffers. It allocates nothing for a packet.
//
// Buffers are as small as the MTU allows, see shrinkBuffers.
//
// To read straight into the right buffers, each end must know the sizes beforehand,
// so it guesses that the next packet has the sizes of the previous one. A wrong guess
// costs a copy.
//
// # Handshakes
//
// Hosts of a cluster often begin their handshakes with each other in the same
// millisecond, for example when all have just read each other's keys. The library
// would lose packets then, for 5 or even 15 seconds, so crossing orders
// such handshakes, and oneWorker makes the library process one at a time.
//
// Everything acts on the network namespace of the calling thread. Nothing here
// sets addresses, routes or the state of links.
package wireguard
