package server

import (
	"net"
	"net/netip"
	"sync"
)

// fairListener closes a new connection of a client that has too many already: otherwise one
// client could take all connections of the server with idle ones.
type fairListener struct {
	net.Listener
	limit int // of one client

	mu   sync.Mutex
	open map[netip.Addr]int
}

func newFairListener(l net.Listener, limit int) *fairListener {
	return &fairListener{Listener: l, limit: limit, open: map[netip.Addr]int{}}
}

// Accept implements [net.Listener].
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := addrOf(c.RemoteAddr().String())
		if l.enter(client) {
			return &fairConn{Conn: c, leave: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		_ = c.Close() // the client is not served anyway
	}
}

func (l *fairListener) enter(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client] >= l.limit {
		return false
	}
	l.open[client]++
	return true
}

func (l *fairListener) leave(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[client]--
	if l.open[client] == 0 {
		delete(l.open, client)
	}
}

// fairConn is a connection that counts until it is closed.
type fairConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *fairConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
