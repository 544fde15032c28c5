package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/flanneld/flannel/drivers/sim/world"
)

// Drop names the reason why a packet was lost.
type Drop string

// The reasons.
const (
	DropNoRoute      Drop = "no_route"
	DropBlackhole    Drop = "blackhole"
	DropNeighMissing Drop = "neigh_missing" // a vxlan link has no such neighbour
	DropNeighFailed  Drop = "neigh_failed"  // no answer on the segment
	DropFDBMissing   Drop = "fdb_missing"
	DropFDBConflict  Drop = "fdb_conflict" // came from another host than its permanent entry says
	DropVNIMismatch  Drop = "vni_mismatch"
	DropTooBig       Drop = "too_big"
	DropTTL          Drop = "ttl"
	DropWireLoss     Drop = "wire_loss"
	DropWireDown     Drop = "wire_down"
	DropWireMTU      Drop = "wire_mtu"
	DropPartition    Drop = "partition"
	DropMACUnknown   Drop = "mac_unknown" // no link on the segment has the frame's address
	DropLinkDown     Drop = "link_down"
	DropNoCarrier    Drop = "no_carrier"
	DropNoListener   Drop = "no_listener"
	DropNotMine      Drop = "not_mine"
	DropRPFilter     Drop = "rp_filter"
	DropMartian      Drop = "martian"    // came from outside with an address of this host
	DropBadSource    Drop = "bad_source" // a tunnel's local address is not the host's
	DropLoop         Drop = "loop"
	DropReassembly   Drop = "reassembly"
	DropMalformed    Drop = "malformed"
	DropTimeout      Drop = "timeout"
	DropFirewall     Drop = "fw_drop"

	DropPolicyBlock   Drop = "xfrm_blocked"     // an IPsec policy blocks the packet
	DropNoAssociation Drop = "xfrm_no_sa"       // a policy demands a tunnel that has no key yet
	DropUnprotected   Drop = "xfrm_unprotected" // did not come through the tunnel that the policies demand
	DropUnknownSPI    Drop = "xfrm_no_state"    // came in a tunnel that this host does not know
	DropWGNoPeer      Drop = "wg_no_peer"       // no peer has the destination or the handshake's key
	DropWGNoEndpoint  Drop = "wg_no_endpoint"   // the device does not know where the peer is
	DropWGNoSession   Drop = "wg_no_session"    // no handshake, or one that the receiver has forgotten
	DropWGKeyMismatch Drop = "wg_key_mismatch"  // another public or pre-shared key
	DropWGNotAllowed  Drop = "wg_not_allowed"   // the sender is not behind the peer
)

// PingOptions say what to send.
type PingOptions struct {
	Src     netip.Addr    // zero: the source that the route prefers
	Size    int           // bytes after the ICMP header; 0 means 56, as in ping
	DF      bool          // never fragment, neither here nor on the way
	TTL     uint8         // 0 means 64
	Timeout time.Duration // 0 means 5 s

	data string       // the beginning of the data
	then func(*Probe) // gets the probe at its end, in place of the network's observer
}

// Probe is an echo request with its fate and that of its reply.
type Probe struct {
	Dst        netip.Addr
	Arrived    bool       // Dst got the request
	Delivered  bool       // the reply came back
	SourceSeen netip.Addr // the sender as Dst saw it
	RTT        time.Duration
	PathMTU    int  // as a host or ICMP reported it; 0 if neither did
	Drop       Drop // the reason, if it was not delivered
	Where      string
	Detail     string
	Path       []Hop // request and reply

	network *Network
	from    *stack
	id      uint16
	sent    time.Time
	done    bool
	end     *world.Event
	then    func(*Probe)
}

// Hop is a step of a packet on its way.
type Hop struct {
	After  time.Duration // since the probe was sent
	Where  string        // host or pod
	What   string        // forward, encap, decap, arrive, reply, drop
	Detail string
}

// String returns the step without its time.
func (h Hop) String() string {
	return strings.TrimSpace(h.Where + " " + h.What + " " + h.Detail)
}

// Done reports whether the outcome is known.
func (p *Probe) Done() bool { return p.done }

// From returns the name of the host or pod that sent the probe.
func (p *Probe) From() string { return p.from.name }

// Sent returns the time at which the probe was sent.
func (p *Probe) Sent() time.Time { return p.sent }

// String returns the outcome in one line.
func (p *Probe) String() string {
	switch {
	case !p.done:
		return fmt.Sprintf("%s to %s under way", p.from.name, p.Dst)
	case p.Delivered:
		return fmt.Sprintf("%s to %s ok src=%s rtt=%s", p.from.name, p.Dst, p.SourceSeen, p.RTT)
	}
	return fmt.Sprintf("%s to %s %s at %s (%s)", p.from.name, p.Dst, p.Drop, p.Where, p.Detail)
}

// ping starts an exchange.
func (s *stack) ping(dst netip.Addr, o PingOptions) *Probe {
	if o.Size == 0 {
		o.Size = 56
	}
	p, src := s.newProbe(dst, o)
	if !src.IsValid() {
		s.drop(p, DropNoRoute, dst.String())
		return p
	}
	h := ipHeader{src: src, dst: dst, ttl: o.TTL, df: o.DF}
	h.proto = icmpProto(h.family())
	body := make([]byte, o.Size)
	for i := range body {
		body[i] = byte(i)
	}
	copy(body, o.data)
	m := icmpMessage{kind: icmpEcho, id: p.id, seq: 1, body: body}
	s.world.Note(s.name+": ping", dst.String())
	s.send(h, m.payload(&h), p)
	return p
}

// newProbe returns a probe that ends by itself, and the source of its packet: none if no
// route leads to the destination.
func (s *stack) newProbe(dst netip.Addr, o PingOptions) (p *Probe, src netip.Addr) {
	n := s.network
	n.probeID++
	p = &Probe{Dst: dst, network: n, from: s, id: n.probeID, sent: n.world.Now(), then: o.then}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	p.end = n.world.After(o.Timeout, s.name+": ping timeout", func() { s.drop(p, DropTimeout, o.Timeout.String()) })
	src = o.Src
	if !src.IsValid() {
		src = s.sourceFor(dst)
	}
	return p, src
}

// pass records a step. A nil probe records nothing.
func (p *Probe) pass(s *stack, what, detail string) {
	if p != nil && !p.done {
		p.Path = append(p.Path, Hop{p.network.world.Now().Sub(p.sent), s.name, what, detail})
	}
}

// arrived records that the request reached its destination.
func (p *Probe) arrived(s *stack, from netip.Addr) {
	p.pass(s, "arrive", "from "+from.String())
	if p != nil && !p.done {
		p.Arrived, p.SourceSeen = true, from
	}
}

// answered ends the probe if the reply belongs to it.
func (p *Probe) answered(s *stack, id uint16) {
	if p == nil || p.done || p.from != s || p.id != id {
		return
	}
	p.pass(s, "reply", "")
	p.Delivered = true
	p.RTT = p.network.world.Now().Sub(p.sent)
	p.setDrop("", "", "")
	p.finish()
}

func (p *Probe) setDrop(why Drop, where, detail string) {
	p.Drop = why
	p.Where = where
	p.Detail = detail
}

// refused records a drop that ICMP will report.
func (p *Probe) refused(s *stack, why Drop, detail string) {
	p.pass(s, "drop", string(why)+" "+detail)
	if p != nil && !p.done && p.Drop == "" {
		p.setDrop(why, s.name, detail)
	}
}

// told ends the probe once ICMP has reported its drop.
func (p *Probe) told(s *stack, kind icmpKind) {
	p.pass(s, "told", kind.String())
	if p != nil && !p.done && p.Drop != "" {
		p.finish()
	}
}

// tooBig notes a smaller MTU on the path.
func (p *Probe) tooBig(mtu int) {
	if p != nil && !p.done {
		p.PathMTU = mtu
	}
}

func (p *Probe) finish() {
	p.done = true
	p.end.Cancel()
	p.network.world.Note("probe", p.String())
	switch {
	case p.then != nil:
		p.then(p)
	case p.network.probes != nil:
		p.network.probes(p)
	}
}

// drop records the silent loss of a packet.
func (s *stack) drop(p *Probe, why Drop, detail string) {
	s.noteDrop(why, detail)
	p.refused(s, why, detail)
	if p != nil && !p.done {
		p.finish()
	}
}

func (s *stack) noteDrop(why Drop, detail string) {
	s.world.Note(s.name+": drop", string(why)+" "+detail)
}
