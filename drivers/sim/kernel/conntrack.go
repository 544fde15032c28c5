package kernel

import (
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// connTime is the lifetime of a connection without packets (Linux
// net.netfilter.nf_conntrack_icmp_timeout).
const connTime = 30 * time.Second

// tuple names the packets of one direction of a connection. They are echo
// requests and replies: no other packet needs connection tracking here.
type tuple struct {
	src, dst netip.Addr
	id       uint16
}

// conn is a connection: the tuple of its first packet, and the tuple of the
// replies as they come in.
type conn struct {
	orig, reply tuple
	until       time.Time
}

// translated reports whether the connection leaves under another address.
func (c *conn) translated() bool {
	return c.orig.src != c.reply.dst || c.orig.id != c.reply.id
}

// conntrack finds the connections of a host by the tuple of either end.
type conntrack struct {
	byOrig, byReply map[tuple]*conn
	order           []*conn // oldest first, to expire them
}

func newConntrack() conntrack {
	return conntrack{byOrig: map[tuple]*conn{}, byReply: map[tuple]*conn{}}
}

func (t *conntrack) add(c *conn) {
	t.byOrig[c.orig], t.byReply[c.reply] = c, c
	t.order = append(t.order, c)
}

// forget drops the expired connections.
func (t *conntrack) forget(now time.Time) {
	for len(t.order) > 0 && !t.order[0].until.After(now) {
		c := t.order[0]
		t.order = t.order[1:]
		if t.byOrig[c.orig] == c {
			delete(t.byOrig, c.orig)
		}
		if t.byReply[c.reply] == c {
			delete(t.byReply, c.reply)
		}
	}
}

// prerouting translates an incoming packet. A reply to a masqueraded connection
// gets the address of the original sender; so does an ICMP error.
func (n *netfilter) prerouting(h ipHeader, payload []byte) (ipHeader, []byte) {
	if h.proto != icmpProto(h.family()) {
		return h, payload
	}
	n.conns.forget(n.host.world.Now())
	m, err := parseICMP(&h, payload)
	if err != nil {
		return h, payload
	}
	switch {
	case m.kind == icmpEchoReply:
		if c := n.conns.byReply[tuple{h.src, h.dst, m.id}]; c != nil && c.translated() {
			h.dst, m.id = c.orig.src, c.orig.id
			return h, m.payload(&h)
		}
	case m.kind.isError():
		return n.untranslateError(h, payload, m)
	}
	return h, payload
}

// untranslateError is prerouting for an ICMP error about one of our packets.
func (n *netfilter) untranslateError(h ipHeader, payload []byte, m icmpMessage) (ipHeader, []byte) {
	about, rest, err := parseQuote(m.body)
	if err != nil || about.proto != icmpProto(about.family()) || len(rest) < 8 {
		return h, payload
	}
	id := uint16(rest[4])<<8 | uint16(rest[5])
	c := n.conns.byReply[tuple{about.dst, about.src, id}]
	if c == nil || !c.translated() {
		return h, payload
	}
	about.src, h.dst = c.orig.src, c.orig.src
	rest = append([]byte(nil), rest...)
	rest[4], rest[5] = byte(c.orig.id>>8), byte(c.orig.id)
	whole := about.packet(rest) // of which the error may quote only the beginning
	m.body = whole[:min(len(whole), len(m.body))]
	return h, m.payload(&h)
}

// postrouting translates a packet that is about to leave by a route. The chains
// decide for the first packet of a connection; later packets follow it. It
// returns false if the packet is dropped.
func (n *netfilter) postrouting(h ipHeader, payload []byte, r *route, mark uint32) (ipHeader, []byte, bool) {
	if h.proto != icmpProto(h.family()) || h.fragment() {
		return h, payload, true
	}
	m, err := parseICMP(&h, payload)
	if err != nil || m.kind != icmpEcho {
		return h, payload, true
	}
	orig := tuple{h.src, h.dst, m.id}
	c := n.conns.byOrig[orig]
	if c == nil {
		c = n.connect(orig, r, mark)
	}
	if c == nil {
		return h, nil, false
	}
	if !c.translated() {
		return h, payload, true
	}
	h.src, m.id = c.reply.dst, c.reply.id
	return h, m.payload(&h), true
}

// connect begins a connection, under the source address that the chains decide.
// It returns nil if there is no such address.
func (n *netfilter) connect(orig tuple, r *route, mark uint32) *conn {
	now := n.host.world.Now()
	c := &conn{orig: orig, reply: tuple{orig.dst, orig.src, orig.id}, until: now.Add(connTime)}
	verdict := n.masquerades(cidr.FamilyOf(orig.src), dataplane.Packet{Src: orig.src, Dst: orig.dst, Mark: mark})
	if verdict == dataplane.Masquerade || verdict == dataplane.MasqueradeRandom {
		c.reply.dst = masqueradeSource(r, orig.dst)
		if !c.reply.dst.IsValid() {
			return nil
		}
		if verdict == dataplane.MasqueradeRandom {
			c.reply.id = uint16(n.host.world.Rand(n.host.name + "/nat").Uint32())
		}
		for n.conns.byReply[c.reply] != nil { // another connection has that id
			c.reply.id++
		}
	}
	n.conns.add(c)
	return c
}
