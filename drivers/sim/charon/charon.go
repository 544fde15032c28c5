package charon

import (
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
)

// The ports of IKE.
const (
	portIKE  = 500
	portNATT = 4500
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

	keys     map[netip.Addr]sharedKey
	conns    map[dataplane.ConnKey]*conn
	halfOpen []*halfOpen // oldest first
	tunnels  []*tunnel   // oldest first
	ended    bool
}

// conn is a loaded connection.
type conn struct {
	dataplane.Conn
	asking *attempt // nil: this daemon does not ask for a tunnel now
}

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
	for _, t := range d.tunnels {
		t.alive.cancel()
	}
	for _, h := range d.halfOpen {
		h.timer.Cancel()
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
		c.asking.sent.cancel()
		c.asking = nil
	}
}

// observe adds the daemon, its keys and connections, and the tunnels that stand.
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
	for _, a := range d.former() {
		state.Put(dataplane.FormerKey{From: a.From, To: a.To})
	}
}

// load adds or changes a connection and begins to establish its tunnel. A changed
// connection keeps its present tunnel until the new one stands.
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
