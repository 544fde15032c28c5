package udppath

import (
	"net/netip"
	"time"
)

// Action is what to do with a packet.
type Action uint8

// The actions.
const (
	Drop     Action = iota
	Transmit        // as a datagram to a peer
	Deliver         // to the kernel, through the TUN device
)

// Verdict is what becomes of a packet. An ICMP error about a packet is a packet
// like any other: the verdict then says where that goes, and for what reason the
// one it is about went no further.
type Verdict struct {
	Action Action
	Reason Reason
	To     netip.Addr // with Transmit: the peer's public address
	// Packet is what to carry. It lies in what was asked about; but an error, which
	// comes with a Reason, in the path's own memory, until the next call.
	Packet []byte
}

// Path decides about packets. It belongs to one loop and locks nothing: each
// loop has its own, and a Table is shared by all.
type Path struct {
	counters Counters
	errors   limiter
	scratch  [maxError]byte
}

// Tick tells the path what time it is, from which follows how many ICMP errors
// it may send. Once before each batch is enough; without it none are sent.
func (p *Path) Tick(now time.Time) { p.errors.refill(now) }

// Counters returns how many packets met each fate so far.
func (p *Path) Counters() Counters { return p.counters }

// Send decides about a packet that the kernel routed into the TUN device, and
// changes it in place. Of a packet that is still to be cut or to be given a
// checksum, vnet says so, and the verdict is about the whole: [Splitter] does
// the rest. Others come with the zero Vnet.
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
			// The kernel cuts such packets at the device's MTU, so this one was
			// on its way while the MTU shrank.
			return p.drop(TooBig)
		}
		return p.deliverError(t, ip, header, TooBig, fragmentationNeeded(t.local.MTU))
	}
	lowerTTL(ip)
	p.counters[Passed]++
	return Verdict{Action: Transmit, To: to, Packet: ip}
}

// Receive decides about the payload of a datagram and changes it in place. It
// accepts what comes from the public address of the lease that holds the source,
// and is for the own subnet. Nothing is said to a sender who is not believed. The
// sender is an IPv4 address, not one mapped into IPv6.
func (p *Path) Receive(t *Table, from netip.Addr, b []byte) Verdict {
	ip, header, reason := parse(b)
	if reason != Passed {
		return p.drop(reason)
	}
	src := source(ip)
	owner, ok := t.peers.Lookup(src)
	switch {
	case t.local.Subnet.Contains(src):
		return p.drop(Spoofed)
	case !ok:
		return p.drop(Foreign)
	case owner != from:
		return p.drop(Spoofed)
	case !t.local.Subnet.Contains(destination(ip)):
		return p.drop(NotOurs)
	case ip[8] <= 1:
		return p.transmitError(t, from, ip, header, TTL, timeExceeded)
	}
	lowerTTL(ip)
	p.counters[Passed]++
	return Verdict{Action: Deliver, Packet: ip}
}

func (p *Path) drop(reason Reason) Verdict {
	p.counters[reason]++
	return Verdict{Reason: reason}
}

// deliverError answers a packet that came from the kernel.
func (p *Path) deliverError(t *Table, ip []byte, header int, reason Reason, e problem) Verdict {
	v := p.drop(reason)
	if mayAnswer(ip, header) && p.errors.take() {
		v.Action = Deliver
		v.Packet = writeError(&p.scratch, t.source, localTTL, e, ip, header)
	}
	return v
}

// transmitError answers a packet that came from a peer. The answer is a packet
// from the own TUN address, as the host itself might send one, so a peer of any
// kind carries it to where it belongs.
func (p *Path) transmitError(t *Table, to netip.Addr, ip []byte, header int, reason Reason, e problem) Verdict {
	v := p.drop(reason)
	if mayAnswer(ip, header) && p.errors.take() {
		v.Action, v.To = Transmit, to
		v.Packet = writeError(&p.scratch, t.source, peerTTL, e, ip, header)
	}
	return v
}

func source(ip []byte) netip.Addr      { return netip.AddrFrom4([4]byte(ip[12:16])) }
func destination(ip []byte) netip.Addr { return netip.AddrFrom4([4]byte(ip[16:20])) }
