package udppath

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// Action tells the caller what to do with a packet.
type Action uint8

// The actions.
const (
	Drop     Action = iota
	Transmit        // as a datagram to a peer
	Deliver         // to the kernel, through the TUN device
)

// Verdict is the fate of a packet. If the answer to a packet is an ICMP error,
// Action, To and Packet are those of the error, and Reason says why the packet
// itself went no further.
type Verdict struct {
	Action Action
	Reason Reason
	To     netip.Addr // with Transmit: the peer's public address
	// Packet is the packet to carry. It lies in the caller's bytes; an error, which
	// comes with a Reason, lies in the path's memory until the next call.
	Packet []byte
}

// Path decides about packets. Each loop has its own, which locks nothing, and all
// share a Table.
type Path struct {
	counters Counters
	errors   limiter
	accepted flow
	scratch  [maxError]byte
}

// flow identifies a packet that Receive accepted: the next one is usually of the same
// flow. The table keeps its memory as long as a flow points to it, so another
// table is another pointer.
type flow struct {
	table     *Table
	from      netip.Addr
	addresses uint64 // source and destination
}

// Tick sets the time, which limits the ICMP errors that the path may send. Once
// before each batch is enough; without it the path sends none.
func (p *Path) Tick(now time.Time) { p.errors.refill(now) }

// Counters returns the number of packets by fate.
func (p *Path) Counters() Counters { return p.counters }

// Send decides about a packet that the kernel routed into the TUN device, and
// changes it in place. With a Vnet that asks for a cut or a checksum, the verdict
// is about the whole packet, and [Splitter] does the rest. A complete packet
// comes with the zero Vnet.
func (p *Path) Send(t *Table, b []byte, vnet Vnet) Verdict {
	ip, header, reason := parse(b)
	if reason != Passed {
		return p.drop(reason)
	}
	size, reason := wireSize(ip, header, vnet)
	if reason != Passed {
		return p.drop(reason)
	}
	if ip[8] <= 1 {
		return p.deliverError(t, ip, header, TTL, timeExceeded)
	}
	to, ok := t.peers.Lookup(destination(ip))
	if !ok {
		return p.deliverError(t, ip, header, NoRoute, netUnreachable)
	}
	if size > t.local.MTU {
		if fragmentation(ip)&dontFragment == 0 {
			// The kernel cuts such packets at the device's MTU, so the MTU has
			// shrunk while this one was in the queue.
			return p.drop(TooBig)
		}
		return p.deliverError(t, ip, header, TooBig, fragmentationNeeded(t.local.MTU))
	}
	lowerTTL(ip)
	p.counters[Passed]++
	return Verdict{Action: Transmit, To: to, Packet: ip}
}

// Receive decides about the payload of a datagram and changes it in place. It
// accepts packets for the node's own subnet if the datagram comes from the public
// address of the lease that holds the source; other senders get no answer. The
// sender is an IPv4 address, not one mapped into IPv6.
func (p *Path) Receive(t *Table, from netip.Addr, b []byte) Verdict {
	ip, header, reason := parse(b)
	if reason != Passed {
		return p.drop(reason)
	}
	this := flow{table: t, from: from, addresses: binary.BigEndian.Uint64(ip[12:])}
	if this != p.accepted {
		if reason := t.accepts(from, source(ip), destination(ip)); reason != Passed {
			return p.drop(reason)
		}
		p.accepted = this
	}
	if ip[8] <= 1 {
		return p.transmitError(t, from, ip, header, TTL, timeExceeded)
	}
	lowerTTL(ip)
	p.counters[Passed]++
	return Verdict{Action: Deliver, Packet: ip}
}

// accepts returns Passed, or why a packet from a sender is not for this node.
func (t *Table) accepts(from, src, dst netip.Addr) Reason {
	owner, ok := t.peers.Lookup(src)
	switch {
	case t.local.Subnet.Contains(src):
		return Spoofed
	case !ok:
		return Foreign
	case owner != from:
		return Spoofed
	case !t.local.Subnet.Contains(dst):
		return NotOurs
	}
	return Passed
}

func (p *Path) drop(reason Reason) Verdict {
	p.counters[reason]++
	return Verdict{Reason: reason}
}

// deliverError answers a packet that came from the kernel.
func (p *Path) deliverError(t *Table, ip []byte, header int, reason Reason, e problem) Verdict {
	return p.answer(t, Verdict{Action: Deliver, Reason: reason}, localTTL, ip, header, e)
}

// transmitError answers a packet that came from a peer. The answer comes from the
// node's own TUN address, as if the host itself sent it, so every kind of peer
// carries it to the pod.
func (p *Path) transmitError(t *Table, to netip.Addr, ip []byte, header int, reason Reason, e problem) Verdict {
	return p.answer(t, Verdict{Action: Transmit, To: to, Reason: reason}, peerTTL, ip, header, e)
}

// answer fills the verdict on a packet with an ICMP error, or drops the packet if
// no error may be sent about it.
func (p *Path) answer(t *Table, v Verdict, ttl byte, ip []byte, header int, e problem) Verdict {
	if !mayAnswer(ip, header) || !p.errors.take() {
		return p.drop(v.Reason)
	}
	p.counters[v.Reason]++
	v.Packet = writeError(&p.scratch, t.source, ttl, e, ip, header)
	return v
}

func source(ip []byte) netip.Addr      { return netip.AddrFrom4([4]byte(ip[12:16])) }
func destination(ip []byte) netip.Addr { return netip.AddrFrom4([4]byte(ip[16:20])) }
