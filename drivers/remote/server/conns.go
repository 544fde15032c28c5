package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

// client is a party that the limits count as one: an IPv4 address or an IPv6 /64, and the name in the verified
// certificate, if there is one. So nodes with certificates of their own do not share a limit.
type client struct {
	from netip.Prefix
	name string
}

// clientAt returns the client at an address, without a certificate.
func clientAt(addr netip.Addr) client {
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	from, _ := addr.Prefix(bits) // it fails only for no address
	return client{from: from}
}

func (c client) String() string {
	at := c.from.String()
	if c.from.IsSingleIP() {
		at = c.from.Addr().String()
	}
	if c.name == "" {
		return at
	}
	return c.name + " at " + at
}

// crowd is a set of connections. It is bounded in total and for each client: a new connection
// takes the place of the one that has waited for its client longest. A connection that is being answered
// keeps its place.
type crowd struct {
	per, total int

	mu      sync.Mutex
	all     group
	clients map[client]*group
}

// group is some connections of a crowd.
type group struct {
	open    int
	waiting list.List // of *conn: those that are not being answered, the longest first
}

func newCrowd(per, total int) *crowd {
	return &crowd{per: per, total: total, clients: map[client]*group{}}
}

// conn is a connection in a crowd until it is closed.
type conn struct {
	net.Conn
	of    client
	crowd *crowd

	inside     bool          // the crowd's mutex guards this and the next two
	everywhere *list.Element // in the waiting ones of all; nil: it is being answered
	here       *list.Element // in the waiting ones of its client
}

// enter adds a waiting connection. It returns false if all others of the client, or
// all others, are being answered.
func (w *crowd) enter(c *conn, of client) bool {
	w.mu.Lock()
	g := w.clients[of]
	if g == nil {
		g = new(group)
	}
	var full *group
	switch {
	case g.open >= w.per:
		full = g
	case w.all.open >= w.total:
		full = &w.all
	}
	var oldest *conn
	if full != nil {
		first := full.waiting.Front()
		if first == nil {
			w.mu.Unlock()
			return false
		}
		oldest = first.Value.(*conn)
		w.removeLocked(oldest)
	}
	c.of, c.crowd = of, w
	c.inside = true
	w.clients[of] = g
	g.open++
	w.all.open++
	w.waitLocked(c)
	w.mu.Unlock()
	if oldest != nil {
		oldest.cut()
	}
	return true
}

// leave removes a connection. It returns false if the connection was removed before.
func (w *crowd) leave(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removeLocked(c)
}

func (w *crowd) removeLocked(c *conn) bool {
	if !c.inside {
		return false
	}
	w.answerLocked(c)
	c.inside = false
	w.all.open--
	g := w.clients[c.of]
	g.open--
	if g.open == 0 {
		delete(w.clients, c.of)
	}
	return true
}

// wait notes that a connection has been answered.
func (w *crowd) wait(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.inside && c.here == nil {
		w.waitLocked(c)
	}
}

func (w *crowd) waitLocked(c *conn) {
	c.everywhere, c.here = w.all.waiting.PushBack(c), w.clients[c.of].waiting.PushBack(c)
}

// answer notes that a connection is being answered from now on. It returns false if the connection
// had to make room.
func (w *crowd) answer(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.inside {
		w.answerLocked(c)
	}
	return c.inside
}

func (w *crowd) answerLocked(c *conn) {
	if c.here == nil {
		return
	}
	w.all.waiting.Remove(c.everywhere)
	w.clients[c.of].waiting.Remove(c.here)
	c.everywhere, c.here = nil, nil
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.crowd.leave(c)
	return c.Conn.Close()
}

// cut ends the connection at once, with all that its client has not read yet.
func (c *conn) cut() {
	_ = c.Conn.Close() // it may have ended
}

// Write implements [net.Conn]. If the client does not read, the kernel forgets what it holds for it.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the connection ends in any case
		}
	}
	return n, err
}

// connOf returns the connection under one of the HTTP server's; nil for any other.
func connOf(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	under, _ := c.(*conn)
	return under
}

// sendBuffer bounds what the kernel holds for a client that does not read, in bytes; the kernel doubles it.
const sendBuffer = 128 << 10

// gate is a listener that bounds its connections. With TLS, it hands a connection out after the handshake.
type gate struct {
	net.Listener
	secrets  *tls.Config // nil: no TLS
	patience time.Duration
	greeted  *crowd // connections in the handshake
	inside   *crowd

	ready chan accepted
	ctx   context.Context // ends with Close
	end   context.CancelFunc
}

// accepted is a result of Accept.
type accepted struct {
	net.Conn
	err error
}

// newGate starts to accept.
func newGate(ctx context.Context, l net.Listener, secrets *tls.Config, inside *crowd, o Options) *gate {
	g := &gate{
		Listener: l, secrets: secrets, patience: o.Timeout,
		greeted: newCrowd(o.Limits.HandshakesPer, o.Limits.Handshakes), inside: inside, ready: make(chan accepted),
	}
	g.ctx, g.end = context.WithCancel(context.WithoutCancel(ctx)) // the HTTP server closes it
	go g.run()
	return g
}

// run accepts connections. The HTTP server pauses after a temporary error.
func (g *gate) run() {
	for {
		raw, err := g.Listener.Accept()
		if err == nil {
			g.admit(raw)
			continue
		}
		g.hand(accepted{err: err})
		if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// admit takes a new connection, or closes it if there is no room.
func (g *gate) admit(raw net.Conn) {
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // a larger one costs memory only
	}
	c, of := &conn{Conn: raw}, clientAt(addrOf(raw.RemoteAddr().String()))
	switch {
	case g.secrets == nil && g.inside.enter(c, of):
		g.hand(accepted{Conn: c})
	case g.secrets != nil && g.greeted.enter(c, of):
		go g.greet(c)
	default:
		c.cut() // there is no room
	}
}

// greet carries out the handshake.
func (g *gate) greet(c *conn) {
	secure := tls.Server(c, g.secrets)
	ctx, cancel := context.WithTimeout(g.ctx, g.patience)
	defer cancel()
	err := secure.HandshakeContext(ctx)
	of := c.of
	if !g.greeted.leave(c) || err != nil {
		c.cut()
		return
	}
	of.name = nameOf(verified(secure.ConnectionState()))
	if !g.inside.enter(c, of) {
		c.cut()
		return
	}
	g.hand(accepted{Conn: secure})
}

// hand hands a result to Accept.
func (g *gate) hand(a accepted) {
	select {
	case g.ready <- a:
	case <-g.ctx.Done():
		if under := connOf(a.Conn); under != nil {
			_ = under.Close() // the server has ended
		}
	}
}

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	select {
	case a := <-g.ready:
		return a.Conn, a.err
	case <-g.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (g *gate) Close() error {
	g.end()
	return g.Listener.Close()
}

// follow tells the crowd of the server's connections which of them are being answered.
func (w *crowd) follow(c net.Conn, state http.ConnState) {
	under := connOf(c)
	switch {
	case under == nil:
		return
	case state == http.StateActive:
		w.answer(under)
	case state == http.StateIdle:
		w.wait(under)
	}
}
