package charon

import (
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// tunnel is a pair of associations in the kernel, with the IKE SA that made it.
type tunnel struct {
	initiator uint64 // the numbers of the IKE SA
	responder uint64
	conn      dataplane.ConnKey
	spiIn     uint32
	spiOut    uint32
	answer    message // the last one of the negotiation, if a peer began it

	heard  time.Duration // when the peer's last message about it came, in virtual time
	number uint32        // of this daemon's last exchange about it
	alive  *request      // the question whether the peer still has it, or the pause before
}

// silence is how long the daemon waits for a packet of the peer before it asks whether
// the peer still has the tunnel (dpd_delay).
const silence = time.Minute

func (d *daemon) tunnelOf(k dataplane.ConnKey) (*tunnel, bool) {
	i := slices.IndexFunc(d.tunnels, func(t *tunnel) bool { return t.conn == k })
	if i < 0 {
		return nil, false
	}
	return d.tunnels[i], true
}

// tunnelBy returns the tunnel that a message is about, or nil.
func (d *daemon) tunnelBy(k dataplane.ConnKey, m message) *tunnel {
	i := slices.IndexFunc(d.tunnels, func(t *tunnel) bool {
		return t.conn == k && t.initiator == m.Initiator && t.responder == m.Responder
	})
	if i < 0 {
		return nil
	}
	return d.tunnels[i]
}

// stands reports whether the kernel has both keys of a tunnel. Another program may have
// removed one.
func (d *daemon) stands(t *tunnel) bool {
	found := 0
	for _, a := range d.host.Associations() {
		in := a.SPI == t.spiIn && a.To == t.conn.Local
		out := a.SPI == t.spiOut && a.To == t.conn.Remote
		if in || out {
			found++
		}
	}
	return found == 2
}

// install gives the keys of a tunnel to the kernel. They derive from the shared key and
// from the numbers that both sides drew; nonce is the initiator's.
func (d *daemon) install(t *tunnel, nonce, other uint64, udp bool) {
	drawn := world.HashUint64(world.HashUint64(world.HashStart, nonce), other)
	secret := world.HashString(drawn, d.keys[t.conn.Remote].text)
	in := kernel.Association{SPI: t.spiIn, From: t.conn.Remote, To: t.conn.Local, ReqID: dataplane.ReqID, UDP: udp}
	out := kernel.Association{SPI: t.spiOut, From: t.conn.Local, To: t.conn.Remote, ReqID: dataplane.ReqID, UDP: udp}
	in.Key = world.HashUint64(secret, uint64(in.SPI))
	out.Key = world.HashUint64(secret, uint64(out.SPI))
	d.host.AddAssociation(in)
	d.host.AddAssociation(out)
	d.tunnels = append(d.tunnels, t)
	t.heard = d.host.World().Elapsed()
	d.watch(t)
	d.hint()
}

// drop removes a tunnel's keys from the kernel and, if tell is set, tells the peer.
func (d *daemon) drop(t *tunnel, tell bool) {
	t.alive.cancel()
	d.host.DeleteAssociation(t.conn.Local, t.spiIn)
	d.host.DeleteAssociation(t.conn.Remote, t.spiOut)
	d.tunnels = slices.DeleteFunc(d.tunnels, func(o *tunnel) bool { return o == t })
	if tell {
		d.send(t.conn, t.message(remove))
	}
	d.hint()
}

// former returns the kernel's keys of tunnels that the daemon does not know.
func (d *daemon) former() []kernel.Association {
	return slices.DeleteFunc(d.host.Associations(), func(a kernel.Association) bool {
		known := func(t *tunnel) bool {
			return a.SPI == t.spiIn && a.To == t.conn.Local || a.SPI == t.spiOut && a.To == t.conn.Remote
		}
		return a.ReqID != dataplane.ReqID || slices.ContainsFunc(d.tunnels, known)
	})
}

// dropFormer removes former keys from the kernel.
func (d *daemon) dropFormer(k dataplane.FormerKey) error {
	err := driver.ErrNotFound
	for _, a := range d.former() {
		if a.From == k.From && a.To == k.To {
			d.host.DeleteAssociation(a.To, a.SPI)
			err = nil
		}
	}
	return err
}

// message returns a message about a tunnel.
func (t *tunnel) message(k kind) message {
	return message{Kind: k, Initiator: t.initiator, Responder: t.responder, Number: t.number}
}

// watch waits until nothing has come from the peer through a tunnel for a while, and then
// asks whether the peer still has it (RFC 7296 section 2.4).
func (d *daemon) watch(t *tunnel) {
	last := max(t.heard, d.host.LastArrival(t.conn.Local, t.spiIn))
	left := last + silence - d.host.World().Elapsed()
	if left > 0 {
		t.alive = &request{timer: d.host.World().After(left, d.host.Name()+": charon", func() { d.watch(t) })}
		return
	}
	t.number++
	t.alive = d.request(t.conn, t.message(alive), func() { d.lost(t) })
}

// lost replaces a tunnel about which the peer is silent (dpd_action restart).
func (d *daemon) lost(t *tunnel) {
	d.drop(t, false)
	if c := d.conns[t.conn]; c != nil && c.asking == nil {
		d.begin(c)
	}
}

// informed handles a message about a tunnel.
func (d *daemon) informed(t *tunnel, m message) {
	t.heard = d.host.World().Elapsed()
	switch m.Kind {
	case remove:
		d.drop(t, false)
	case alive:
		m.Kind = aliveBack
		d.send(t.conn, m)
	case aliveBack:
		if m.Number == t.number {
			t.alive.cancel()
			d.watch(t)
		}
	}
}
