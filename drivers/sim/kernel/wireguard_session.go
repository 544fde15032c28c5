package kernel

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// The timers of WireGuard (Linux drivers/net/wireguard/messages.h).
const (
	wgRekeyAfter   = 120 * time.Second // the initiator's next handshake
	wgRekeyTimeout = 5 * time.Second   // between attempts
	wgKeepalive    = 10 * time.Second  // until a reply to data
	wgAttempts     = 18
	wgQueueLen     = 64
)

// wgSession is a pair of keys.
type wgSession struct {
	peer      *wgPeer
	ours      uint32 // the index in packets to us
	theirs    uint32 // the index in packets to the peer
	cipher    wgCipher
	since     time.Time
	initiator bool // we began the handshake
	counter   uint64
}

// wgAttempt is a handshake that this side has begun. It is under way while the next try is
// pending.
type wgAttempt struct {
	index uint32 // 0: the device ignores answers
	nonce [32]byte
	tries int
	retry *world.Event
}

func (a *wgAttempt) end(p *wgPeer) {
	delete(p.device.indexes, a.index)
	a.retry.Cancel()
	*a = wgAttempt{}
}

// overtake makes the device ignore answers to the attempt: the peer has begun a handshake too, and Linux remembers
// one handshake for each peer (drivers/net/wireguard/noise.c, wg_noise_handshake_consume_initiation). So two hosts
// that begin at the same moment both fail. The next try comes at its time, unless the peer's handshake succeeds before.
func (a *wgAttempt) overtake(p *wgPeer) {
	delete(p.device.indexes, a.index)
	a.index = 0
}

// fresh reports whether a session may still carry packets.
func (s *wgSession) fresh() bool {
	return s != nil && s.age() < dataplane.SessionLife
}

func (s *wgSession) age() time.Duration {
	return s.peer.device.link.stack.world.Now().Sub(s.since)
}

// carryPacket sends a packet to the peer behind its destination.
func (d *wgDevice) carryPacket(packet []byte, _ netip.Addr, p *Probe) bool {
	s := d.link.stack
	h, _, err := parseIP(packet)
	switch {
	case err != nil:
		s.drop(p, DropMalformed, err.Error())
		return true
	case !d.link.up:
		s.drop(p, DropLinkDown, d.link.name)
		return true
	case !d.runs():
		s.drop(p, DropNoCarrier, d.link.name)
		return true
	}
	d.work("packet from "+d.link.name, p, func() { d.encrypt(h, packet, p) })
	return true
}

// work does the device's work: the kernel's at once, a process's when it can.
func (d *wgDevice) work(what string, p *Probe, do func()) {
	program := d.program
	if program == nil {
		do()
		return
	}
	s := d.link.stack
	s.world.After(readTime, s.name+": "+what, func() {
		program.attend(func() {
			if d.program != program || !d.link.up {
				s.drop(p, DropNoListener, "the process on "+d.link.name+" has ended")
				return
			}
			do()
		})
	})
}

func (d *wgDevice) encrypt(h ipHeader, packet []byte, p *Probe) {
	s := d.link.stack
	peer := d.peers.behind(h.dst)
	switch {
	case peer == nil:
		s.refuse(DropWGNoPeer, fmt.Sprintf("%s dev %s", h.dst, d.link.name), icmpMessage{kind: icmpNoHost}, packet, p)
	case !peer.endpoint.IsValid():
		s.refuse(DropWGNoEndpoint, fmt.Sprintf("%s dev %s", h.dst, d.link.name), icmpMessage{kind: icmpNoHost}, packet, p)
	case peer.current.fresh():
		peer.send(packet, p)
	case len(peer.queue) == wgQueueLen:
		s.drop(p, DropWGNoSession, "too many packets wait")
	default:
		peer.queue = append(peer.queue, wgQueued{packet, p})
		peer.initiate()
	}
}

// send sends a packet in the current session. An empty one is a keepalive.
func (p *wgPeer) send(packet []byte, probe *Probe) {
	s, current := p.device.link.stack, p.current
	m := wgMessage{kind: wgData, receiver: current.theirs, counter: current.counter}
	m.body = current.cipher.seal(current.counter, packet)
	current.counter++
	if len(packet) > 0 {
		probe.pass(s, "encap", fmt.Sprintf("%s to %s", p.device.link.name, p.endpoint))
		if !p.silence.Pending() {
			p.silence = p.after(wgKeepalive+wgRekeyTimeout, "silence", p.initiate)
		}
	}
	p.reply.Cancel()
	p.transmit(&m, probe)
	if current.initiator && current.age() >= wgRekeyAfter {
		p.initiate()
	}
}

// transmit sends a message to the peer's endpoint.
func (p *wgPeer) transmit(m *wgMessage, probe *Probe) {
	d, s := p.device, p.device.link.stack
	to := p.endpoint
	outer := ipHeader{src: s.sourceFor(to.Addr()), dst: to.Addr(), proto: protoUDP}
	r := s.fibs[outer.family()].lookup(outer.dst)
	switch {
	case !to.IsValid() || !outer.src.IsValid():
		s.drop(probe, DropNoRoute, "outer "+to.String())
		return
	case !s.isLocal(outer.dst) && r != nil && r.link == d.link:
		s.drop(probe, DropLoop, fmt.Sprintf("outer %s dev %s", to, d.link.name))
		return
	}
	datagram := udpDatagram{src: d.ListenPort, dst: to.Port(), body: m.bytes()}
	s.send(outer, datagram.payload(&outer), probe)
}

// after schedules work of the device for a peer.
func (p *wgPeer) after(in time.Duration, what string, do func()) *world.Event {
	d := p.device
	s := d.link.stack
	return s.world.After(in, s.name+": wireguard "+what, func() {
		if d.program == nil {
			do()
			return
		}
		d.program.attend(do)
	})
}

// keepAlive sends a keepalive and schedules the next one, if the peer has persistent keepalives.
func (p *wgPeer) keepAlive() {
	d := p.device
	if p.keepalive == 0 || d.link == nil || !d.link.up || !d.runs() || p.periodic.Pending() {
		return
	}
	p.periodic = p.after(p.keepalive, "keepalive", p.keepAlive)
	p.poke()
}

// poke sends a keepalive, or begins the handshake that it needs.
func (p *wgPeer) poke() {
	switch {
	case !p.endpoint.IsValid():
		return
	case p.current.fresh():
		p.send(nil, nil)
	default:
		p.initiate()
	}
}

// tellPort sends a keepalive from the device's new port, if there is a session. The peer
// learns the port from it, as the driver for Linux has it.
func (p *wgPeer) tellPort() {
	if p.endpoint.IsValid() && p.current.fresh() {
		p.send(nil, nil)
	}
}

// initiate begins a handshake. If one is under way, it resets the number of tries: Linux counts them from the last
// packet that needed a session (drivers/net/wireguard/send.c, wg_packet_send_queued_handshake_initiation).
func (p *wgPeer) initiate() {
	p.attempt.tries = 0
	if !p.attempt.retry.Pending() && p.endpoint.IsValid() && p.device.link.up && p.device.runs() {
		p.try()
	}
}

// try sends an initiation, and the next one if no answer comes.
func (p *wgPeer) try() {
	d, a := p.device, &p.attempt
	tries := a.tries
	a.end(p)
	if tries == wgAttempts {
		p.dropQueue(DropWGNoSession, "no answer from "+p.endpoint.String())
		return
	}
	session := &wgSession{peer: p}
	a.tries = tries + 1
	a.index = d.newIndex(session)
	a.nonce = d.nonce()
	static := wgMask([32]byte(d.PublicKey), wgHash(p.public[:], a.nonce[:]))
	m := wgMessage{kind: wgInitiation, sender: a.index, nonce: a.nonce, static: static}
	m.proof = proofOfPeer(p.public, m.nonce, m.static)
	jitter := world.UpTo(d.link.stack.world.Rand(d.link.stack.name+"/wireguard"), wgRekeyTimeout/15)
	a.retry = p.after(wgRekeyTimeout+jitter, "handshake", p.try)
	p.transmit(&m, nil)
}

// newIndex draws an index for packets of a session to this device.
func (d *wgDevice) newIndex(s *wgSession) uint32 {
	if d.indexes == nil {
		d.indexes = map[uint32]*wgSession{}
	}
	rng := d.link.stack.world.Rand(d.link.stack.name + "/wireguard")
	for {
		index := rng.Uint32()
		if d.indexes[index] == nil && index != 0 {
			s.ours = index
			d.indexes[index] = s
			return index
		}
	}
}

func (d *wgDevice) nonce() (n [32]byte) {
	rng := d.link.stack.world.Rand(d.link.stack.name + "/wireguard")
	for i := 0; i < len(n); i += 8 {
		binary.LittleEndian.PutUint64(n[i:], rng.Uint64())
	}
	return n
}

// arrive handles a datagram from a socket.
func (d *wgDevice) arrive(h ipHeader, u udpDatagram, p *Probe) {
	d.work(fmt.Sprintf("datagram at port %d", u.dst), p, func() { d.decrypt(h, u, p) })
}

func (d *wgDevice) decrypt(h ipHeader, u udpDatagram, p *Probe) {
	m, err := parseWG(u.body)
	from := netip.AddrPortFrom(h.src, u.src)
	switch {
	case err != nil:
		d.link.stack.drop(p, DropMalformed, err.Error())
	case m.kind == wgInitiation:
		d.answerTo(m, from, p)
	case m.kind == wgResponse:
		d.finish(m, from, p)
	default:
		d.take(m, from, p)
	}
}

// answerTo answers an initiation. The session counts once the initiator uses it.
func (d *wgDevice) answerTo(m wgMessage, from netip.AddrPort, p *Probe) {
	s := d.link.stack
	if m.proof != proofOfPeer(d.PublicKey, m.nonce, m.static) {
		s.drop(p, DropWGKeyMismatch, fmt.Sprintf("a handshake from %s is for another key", from))
		return
	}
	public := dataplane.PublicKey(wgMask(m.static, wgHash(d.PublicKey[:], m.nonce[:])))
	peer, known := d.peers.get(public)
	if !known {
		s.drop(p, DropWGNoPeer, fmt.Sprintf("%s at %s", public, from))
		return
	}
	if peer.answered == m.nonce { // the real protocol has a time in each initiation
		s.drop(p, DropWGNoSession, fmt.Sprintf("a handshake of %s for the second time", from))
		return
	}
	peer.answered = m.nonce
	peer.endpoint = from
	peer.attempt.overtake(peer)
	if peer.next != nil {
		delete(d.indexes, peer.next.ours)
	}
	answer := wgMessage{kind: wgResponse, receiver: m.sender, nonce: d.nonce()}
	peer.next = &wgSession{peer: peer, theirs: m.sender, since: s.world.Now()}
	peer.next.cipher = newWGCipher(peer.psk, m.nonce, answer.nonce)
	answer.sender = d.newIndex(peer.next)
	answer.proof = proofOfPSK(peer.psk, m.nonce, answer.nonce)
	peer.transmit(&answer, nil)
}

// finish completes a handshake that this device has begun.
func (d *wgDevice) finish(m wgMessage, from netip.AddrPort, p *Probe) {
	s := d.link.stack
	session := d.indexes[m.receiver]
	if session == nil || session.peer.attempt.index != m.receiver {
		s.drop(p, DropWGNoSession, fmt.Sprintf("an answer from %s that no handshake waits for", from))
		return
	}
	peer := session.peer
	if m.proof != proofOfPSK(peer.psk, peer.attempt.nonce, m.nonce) {
		s.drop(p, DropWGKeyMismatch, fmt.Sprintf("%s at %s has another pre-shared key", peer.public, from))
		return
	}
	peer.endpoint = from
	session.cipher = newWGCipher(peer.psk, peer.attempt.nonce, m.nonce)
	session.theirs = m.sender
	session.initiator = true
	session.since = s.world.Now()
	peer.attempt.retry.Cancel()
	peer.attempt = wgAttempt{}
	peer.use(session)
	if len(peer.queue) == 0 {
		peer.send(nil, nil) // confirms the session
	}
	peer.flush()
}

// use makes a session the current one. The peer may go on with the former one.
func (p *wgPeer) use(s *wgSession) {
	if p.previous != nil {
		delete(p.device.indexes, p.previous.ours)
	}
	p.previous = p.current
	p.current = s
	p.shook = p.device.link.stack.world.Now()
}

func (p *wgPeer) flush() {
	queue := p.queue
	p.queue = nil
	for _, q := range queue {
		p.send(q.packet, q.probe)
	}
}

// take handles a packet of a session.
func (d *wgDevice) take(m wgMessage, from netip.AddrPort, p *Probe) {
	s := d.link.stack
	session := d.indexes[m.receiver]
	if !session.fresh() {
		s.drop(p, DropWGNoSession, fmt.Sprintf("a packet from %s", from))
		return
	}
	packet, ok := session.cipher.open(m.counter, m.body)
	if !ok {
		s.drop(p, DropWGKeyMismatch, fmt.Sprintf("a packet from %s", from))
		return
	}
	peer := session.peer
	peer.endpoint = from
	peer.silence.Cancel()
	if session == peer.next {
		peer.next = nil
		peer.attempt.retry.Cancel()
		peer.use(session)
		peer.flush()
	}
	if len(packet) == 0 {
		return
	}
	if !peer.reply.Pending() {
		peer.reply = peer.after(wgKeepalive, "reply", peer.poke)
	}
	d.deliver(peer, packet, p)
}

// deliver passes a decrypted packet on, if its sender is behind the peer.
func (d *wgDevice) deliver(peer *wgPeer, packet []byte, p *Probe) {
	s := d.link.stack
	h, payload, err := parseIP(packet)
	switch {
	case err != nil:
		s.drop(p, DropMalformed, err.Error())
		return
	case d.peers.behind(h.src) != peer:
		s.drop(p, DropWGNotAllowed, fmt.Sprintf("%s from %s", h.src, peer.public))
		return
	}
	p.pass(s, "decap", d.link.name)
	d.link.receiveIP(packet[:h.size+len(payload)], p)
}
