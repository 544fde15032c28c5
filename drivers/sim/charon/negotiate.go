package charon

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// attempt is a negotiation that this daemon began.
type attempt struct {
	initiator uint64 // this daemon's number of the IKE SA
	responder uint64 // the peer's; 0: the peer has not answered
	nonce     uint64
	other     uint64 // the peer's nonce
	spi       uint32
	sent      *request
}

// halfOpen is a negotiation that a peer began, after its first exchange.
type halfOpen struct {
	peer   dataplane.ConnKey
	first  message
	answer message
	timer  *world.Event
}

// halfOpenTime is how long the real daemon keeps a half-open negotiation.
const halfOpenTime = 30 * time.Second

func (d *daemon) chance() *rand.Rand { return d.host.World().Rand("charon/" + d.host.Name()) }

// begin asks the peer for a tunnel, again and again until the peer answers (keyingtries 0).
func (d *daemon) begin(c *conn) {
	chance := d.chance()
	a := &attempt{initiator: chance.Uint64(), nonce: chance.Uint64(), spi: chance.Uint32() | 1}
	c.asking = a
	first := message{Kind: hello, Initiator: a.initiator, Nonce: a.nonce}
	a.sent = d.request(c.ConnKey, first, func() { d.begin(c) })
}

// awaits reports whether a message answers the last request of an attempt.
func (a *attempt) awaits(m message) bool {
	begun := a.responder == 0
	switch {
	case m.Initiator != a.initiator:
		return false
	case m.Kind == helloBack:
		return begun
	}
	return m.Responder == a.responder && (m.Kind == refuse || !begun)
}

// answered handles the answer to a request of an attempt.
func (d *daemon) answered(c *conn, m message) {
	a := c.asking
	switch {
	case m.Kind == refuse:
		c.quiet()
		d.hint()
	case m.Kind == helloBack:
		a.sent.cancel()
		a.responder, a.other = m.Responder, m.Nonce
		_, known := d.tunnelOf(c.ConnKey)
		second := message{
			Kind: ask, Initiator: a.initiator, Responder: a.responder, SPI: a.spi, ESP: c.ESP, UDP: c.Encap,
			Proof: d.proof(c.ConnKey, a.nonce, a.other), First: !known,
		}
		a.sent = d.request(c.ConnKey, second, func() { d.begin(c) })
	case m.Proof == d.proof(c.ConnKey, a.other, a.nonce):
		c.quiet()
		t := &tunnel{
			initiator: a.initiator, responder: a.responder, conn: c.ConnKey, spiIn: a.spi, spiOut: m.SPI,
		}
		d.install(t, a.nonce, a.other, m.UDP)
	}
}

// proof shows that the sender has the shared key of a connection. It covers the numbers that
// both sides drew for this negotiation, so a message of a former one proves nothing.
func (d *daemon) proof(k dataplane.ConnKey, own, other uint64) uint64 {
	drawn := world.HashUint64(world.HashUint64(world.HashStart, own), other)
	return world.HashString(drawn, d.keys[k.Remote].text)
}

// greeted answers the first request of a peer's negotiation. A repeated request gets the
// same answer.
func (d *daemon) greeted(k dataplane.ConnKey, m message) {
	same := func(h *halfOpen) bool { return h.peer == k && h.first == m }
	if i := slices.IndexFunc(d.halfOpen, same); i >= 0 {
		d.send(k, d.halfOpen[i].answer)
		return
	}
	if d.conns[k] == nil {
		d.send(k, message{Kind: refuse, Initiator: m.Initiator})
		return
	}
	chance := d.chance()
	h := &halfOpen{peer: k, first: m}
	h.answer = message{Kind: helloBack, Initiator: m.Initiator, Responder: chance.Uint64() | 1, Nonce: chance.Uint64()}
	h.timer = d.host.World().After(halfOpenTime, d.host.Name()+": charon", func() { d.forget(h) })
	d.halfOpen = append(d.halfOpen, h)
	d.send(k, h.answer)
}

func (d *daemon) forget(h *halfOpen) {
	h.timer.Cancel()
	d.halfOpen = slices.DeleteFunc(d.halfOpen, func(o *halfOpen) bool { return o == h })
}

// asked answers the second request of a negotiation. One about a negotiation that this
// daemon does not know, such as one with a former process, gets no answer.
func (d *daemon) asked(k dataplane.ConnKey, m message) {
	if t := d.tunnelBy(k, m); t != nil {
		d.send(k, t.answer)
		return
	}
	i := slices.IndexFunc(d.halfOpen, func(h *halfOpen) bool {
		return h.peer == k && h.answer.Initiator == m.Initiator && h.answer.Responder == m.Responder
	})
	if i < 0 {
		return
	}
	h := d.halfOpen[i]
	d.forget(h)
	nonce, own := h.first.Nonce, h.answer.Nonce
	c := d.conns[k]
	if c == nil || c.ESP != m.ESP || m.Proof != d.proof(k, nonce, own) {
		d.send(k, message{Kind: refuse, Initiator: m.Initiator, Responder: m.Responder})
		return
	}
	answer := message{
		Kind: agree, Initiator: m.Initiator, Responder: m.Responder, SPI: d.chance().Uint32() | 1,
		UDP: m.UDP || c.Encap, Proof: d.proof(k, own, nonce),
	}
	former := slices.Clone(d.tunnels)
	t := &tunnel{
		initiator: m.Initiator, responder: m.Responder, conn: k, spiIn: answer.SPI, spiOut: m.SPI, answer: answer,
	}
	d.install(t, nonce, own, answer.UDP)
	for _, t := range former {
		if m.First && t.conn == k {
			d.drop(t, false)
		}
	}
	d.send(k, answer)
}
