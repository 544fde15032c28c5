package charon

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// The ports of IKE.
const (
	portIKE  = 500
	portNATT = 4500
)

// The first and the longest pause before a request is sent again (the real daemon's
// retransmissions begin after 4 s).
const (
	resendFirst = 4 * time.Second
	resendMost  = time.Minute
)

// sharedKey is a loaded key.
type sharedKey struct {
	name dataplane.SecretName
	text string
}

// daemon is a running IKE daemon.
type daemon struct {
	host   *kernel.Host
	socket *kernel.UDPSocket
	natt   *kernel.UDPSocket // also receives ESP in UDP, which the kernel takes
	hint   func()

	keys    map[netip.Addr]sharedKey
	conns   map[dataplane.ConnKey]*conn
	tunnels []*tunnel // oldest first
	ended   bool
}

// conn is a loaded connection.
type conn struct {
	dataplane.Conn
	asking *request // nil: no request is under way
}

// request is a request of this daemon that has no answer yet.
type request struct {
	message
	pause time.Duration
	timer *world.Event
}

// tunnel is a pair of associations in the kernel.
type tunnel struct {
	id     uint64
	conn   dataplane.ConnKey
	spiIn  uint32
	spiOut uint32
	answer message // if a peer asked for it
}

// message passes between two daemons. The real ones encrypt it.
type message struct {
	Kind      string
	ID        uint64 // of the tunnel
	LocalNet  netip.Prefix
	RemoteNet netip.Prefix
	ESP       string
	UDP       bool
	SPI       uint32
	Nonce     uint64
	Proof     uint64
	First     bool // the sender has no tunnel with the receiver (INITIAL_CONTACT)
}

// The kinds of messages.
const (
	ask    = "ask"
	agree  = "agree"
	refuse = "refuse"
	remove = "delete"
)

// start begins a daemon. It fails if another program has its ports.
func start(host *kernel.Host, hint func()) (*daemon, error) {
	d := &daemon{
		host: host, hint: hint,
		keys: map[netip.Addr]sharedKey{}, conns: map[dataplane.ConnKey]*conn{},
	}
	var err error
	d.socket, err = host.ListenUDP(portIKE, d.receive)
	if err != nil {
		return nil, err
	}
	d.natt, err = host.ListenUDP(portNATT, func(netip.AddrPort, netip.Addr, []byte) {})
	if err != nil {
		d.socket.Close()
		return nil, err
	}
	host.World().Note(host.Name()+": charon", "start")
	return d, nil
}

// end ends the daemon at once, as SIGKILL does.
func (d *daemon) end() {
	d.ended = true
	d.socket.Close()
	d.natt.Close()
	for _, c := range d.conns {
		c.quiet()
	}
	d.host.World().Note(d.host.Name()+": charon", "end")
}

// stop ends the daemon in order: it removes its tunnels and tells the peers.
func (d *daemon) stop() {
	for _, t := range slices.Clone(d.tunnels) {
		d.drop(t, true)
	}
	d.end()
}

func (c *conn) quiet() {
	if c.asking != nil {
		c.asking.timer.Cancel()
		c.asking = nil
	}
}

// observe adds what the daemon runs with.
func (d *daemon) observe(state *dataplane.State) {
	state.Put(dataplane.IKEDaemon{Name: dataplane.Charon})
	for owner, key := range d.keys {
		state.Put(dataplane.SharedKey{SharedKeyKey: dataplane.SharedKeyKey{Owner: owner}, Secret: key.name})
	}
	for _, c := range d.conns {
		state.Put(c.Conn)
	}
	for _, t := range d.tunnels {
		if d.stands(t) {
			state.Put(dataplane.Tunnel{ConnKey: t.conn})
		}
	}
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

// load takes in a connection and begins to establish its tunnel. A changed
// connection leaves the present tunnel until the new one is there.
func (d *daemon) load(o dataplane.Conn) {
	if c := d.conns[o.ConnKey]; c != nil {
		c.quiet()
	}
	d.conns[o.ConnKey] = &conn{Conn: o}
	d.begin(d.conns[o.ConnKey])
}

func (d *daemon) unload(k dataplane.ConnKey) error {
	c := d.conns[k]
	if c == nil {
		return driver.ErrNotFound
	}
	c.quiet()
	delete(d.conns, k)
	d.terminate(k)
	return nil
}

func (d *daemon) terminate(k dataplane.ConnKey) {
	for _, t := range slices.Clone(d.tunnels) {
		if t.conn == k {
			d.drop(t, true)
		}
	}
}

func (d *daemon) initiate(k dataplane.ConnKey) error {
	c := d.conns[k]
	if c == nil {
		return driver.ErrNotFound
	}
	for _, t := range slices.Clone(d.tunnels) {
		if t.conn == k && !d.stands(t) {
			d.drop(t, true)
		}
	}
	if c.asking == nil {
		d.begin(c)
	}
	return nil
}

// begin asks the peer for a tunnel.
func (d *daemon) begin(c *conn) {
	chance := d.host.World().Rand("charon/" + d.host.Name())
	r := &request{pause: resendFirst, message: message{
		Kind: ask, ID: chance.Uint64(), LocalNet: c.LocalNet, RemoteNet: c.RemoteNet, ESP: c.ESP, UDP: c.Encap,
		SPI: chance.Uint32() | 1, Nonce: chance.Uint64(),
	}}
	r.Proof = d.proof(c.ConnKey, r.Nonce)
	c.asking = r
	d.resend(c, r)
}

// resend sends a request again and again until it is answered. Meanwhile the peer may
// have asked for a tunnel, which it would end if this request were the first contact.
func (d *daemon) resend(c *conn, r *request) {
	_, known := d.tunnelOf(c.ConnKey)
	r.First = !known
	d.send(c.ConnKey, r.message)
	r.timer = d.host.World().After(r.pause, d.host.Name()+": charon", func() {
		r.pause = min(2*r.pause, resendMost)
		d.resend(c, r)
	})
}

func (d *daemon) tunnelOf(k dataplane.ConnKey) (*tunnel, bool) {
	i := slices.IndexFunc(d.tunnels, func(t *tunnel) bool { return t.conn == k })
	if i < 0 {
		return nil, false
	}
	return d.tunnels[i], true
}

// proof shows that the sender has the shared key of a connection.
func (d *daemon) proof(k dataplane.ConnKey, nonce uint64) uint64 {
	return world.HashString(world.HashUint64(world.HashStart, nonce), d.keys[k.Remote].text)
}

func (d *daemon) send(k dataplane.ConnKey, m message) {
	body, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("charon: %v", err)) // every message can be encoded
	}
	d.socket.Send(k.Local, netip.AddrPortFrom(k.Remote, portIKE), body)
}

// receive takes a message.
func (d *daemon) receive(from netip.AddrPort, to netip.Addr, body []byte) {
	var m message
	if d.ended || json.Unmarshal(body, &m) != nil {
		return
	}
	k := dataplane.ConnKey{Local: to, LocalNet: m.RemoteNet, RemoteNet: m.LocalNet, Remote: from.Addr()}
	switch m.Kind {
	case ask:
		d.asked(k, m)
	case agree:
		d.agreed(k, m)
	case refuse:
		if c := d.conns[k]; c != nil && c.asking != nil && c.asking.ID == m.ID {
			c.quiet()
			d.hint()
		}
	case remove:
		for _, t := range slices.Clone(d.tunnels) {
			if t.id == m.ID && t.conn == k {
				d.drop(t, false)
			}
		}
	}
}

// asked answers a peer's request. An answer that was lost is sent again.
func (d *daemon) asked(k dataplane.ConnKey, m message) {
	for _, t := range d.tunnels {
		if t.id == m.ID {
			d.send(k, t.answer)
			return
		}
	}
	c := d.conns[k]
	if c == nil || c.ESP != m.ESP || m.Proof != d.proof(k, m.Nonce) {
		d.send(k, message{Kind: refuse, ID: m.ID, LocalNet: k.LocalNet, RemoteNet: k.RemoteNet})
		return
	}
	chance := d.host.World().Rand("charon/" + d.host.Name())
	answer := message{
		Kind: agree, ID: m.ID, LocalNet: k.LocalNet, RemoteNet: k.RemoteNet, UDP: m.UDP || c.Encap,
		SPI: chance.Uint32() | 1, Nonce: chance.Uint64(),
	}
	answer.Proof = d.proof(k, answer.Nonce)
	former := slices.Clone(d.tunnels)
	t := &tunnel{id: m.ID, conn: k, spiIn: answer.SPI, spiOut: m.SPI, answer: answer}
	d.install(t, m.Nonce, answer.Nonce, answer.UDP)
	for _, t := range former {
		if m.First && t.conn == k {
			d.drop(t, false)
		}
	}
	d.send(k, answer)
}

// agreed takes the answer to a request.
func (d *daemon) agreed(k dataplane.ConnKey, m message) {
	c := d.conns[k]
	if c == nil || c.asking == nil || c.asking.ID != m.ID || m.Proof != d.proof(k, m.Nonce) {
		return
	}
	r := c.asking
	c.quiet()
	d.install(&tunnel{id: m.ID, conn: k, spiIn: r.SPI, spiOut: m.SPI}, r.Nonce, m.Nonce, m.UDP)
}

// install gives the keys of a tunnel to the kernel. They follow from the shared key
// and from what both sides drew; nonce is the first side's.
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
	d.hint()
}

// drop takes a tunnel's keys from the kernel, and perhaps tells the peer.
func (d *daemon) drop(t *tunnel, tell bool) {
	d.host.DeleteAssociation(t.conn.Local, t.spiIn)
	d.host.DeleteAssociation(t.conn.Remote, t.spiOut)
	d.tunnels = slices.DeleteFunc(d.tunnels, func(o *tunnel) bool { return o == t })
	if tell {
		d.send(t.conn, message{Kind: remove, ID: t.id, LocalNet: t.conn.LocalNet, RemoteNet: t.conn.RemoteNet})
	}
	d.hint()
}
